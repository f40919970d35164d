"""Memory that is freed and asked for again: the same pages, without the system in between."""

import subprocess
import sys

import pytest

# Twenty arrays of 8 MB one after the other, each written to: pages that the system handed out.
PROGRAM = """
import platform, resource, sys
import numpy as np
from dcaplda.train.steps.memory import keep_freed_memory
if platform.libc_ver()[0] != "glibc":
    raise SystemExit(3)
if sys.argv[1] == "kept":
    keep_freed_memory()
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        # What a step does: several at a time, freed together.
        several = [np.ones(1 << 20) for _ in range(3)]
        del several
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def page_faults(how: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how], capture_output=True, text=True, check=False
    )
    if done.returncode == 3:
        pytest.skip("not glibc")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.torch
def test_kept_memory_is_not_asked_of_the_system_again() -> None:
    # 60 arrays of 2048 pages; where pages are large there are fewer of them.
    assert page_faults("kept") < 0.1 * page_faults("default")
