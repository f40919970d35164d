"""Progress of long work: lines where nobody watches, a bar on a terminal, from several threads."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from dcaplda.bin.common import progress as module
from dcaplda.bin.common.options import Log
from dcaplda.bin.common.progress import Progress


def test_a_log_gets_a_line_now_and_then_and_none_at_the_end(capsys, monkeypatch):
    times = iter([0.0, 4.0, 12.0, 14.0, 60.0, 90.0])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(times))
    with Progress(100, "evaluation", Log("eval-scores")) as progress:
        for _ in range(5):
            progress.advance(20)
    lines = capsys.readouterr().err.splitlines()
    # At 12 s 40 of 100 steps were done: 18 s to go. At 14 s it is too soon for another line.
    assert lines == [
        "eval-scores: LOG: evaluation: 40 % done, about 18 s to go",
        "eval-scores: LOG: evaluation: 80 % done, about 15 s to go",
    ]


def test_quick_work_says_nothing(capsys):
    with Progress(3, "evaluation", Log("eval-scores")) as progress:
        progress.advance(3)
    assert capsys.readouterr().err == ""


def test_steps_of_several_threads_add_up():
    with (
        Progress(4000, "evaluation", Log("eval-scores")) as progress,
        ThreadPoolExecutor(4) as pool,
    ):
        list(pool.map(lambda _: [progress.advance(1) for _ in range(1000)], range(4)))
    assert progress.done == 4000


def test_a_terminal_gets_a_bar(capsys, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with Progress(10, "evaluation", Log("eval-scores")) as progress:
        progress.advance(5)
        assert progress.bar.n == 5
    assert "evaluation" in capsys.readouterr().err
