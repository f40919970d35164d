"""Runs every benchmark, or those named: python bench/run.py [compare score_trials ...]."""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
HELPERS = {"run", "models", "people", "timing"}


def main() -> int:
    """Each benchmark in a process of its own, so that none sees another's memory or threads."""
    known = sorted(path.stem for path in HERE.glob("*.py") if path.stem not in HELPERS)
    chosen = sys.argv[1:] or known
    for name in chosen:
        if name not in known:
            print(f"bench: no benchmark '{name}'; known: {', '.join(known)}", file=sys.stderr)
            return 1
    failed = []
    for name in chosen:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, str(HERE / f"{name}.py")], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"bench: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
