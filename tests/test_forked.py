"""Programs in forks end as programs do that were started."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from tests.forked import run_module

ME = "tests.test_forked"


def main() -> None:
    what = sys.argv[1]
    print(what, os.environ.get("GIVEN"), sys.stdin.read(), sys.modules["torch"].__name__)
    if what == "exits":
        sys.exit(3)
    if what == "says":
        sys.exit("why it ends")
    if what == "raises":
        raise ValueError("a reason")
    if what == "dies":
        os.abort()
    if what == "hangs":
        if os.fork() == 0:
            sys.stdout.write(f"{os.getpid()}\n")
        sys.stdout.flush()
        time.sleep(600)


@pytest.mark.parametrize(
    ("what", "code", "words"),
    [("returns", 0, ""), ("exits", 3, ""), ("says", 1, "why it ends\n"), ("raises", 1, "ValueError: a reason\n")],
)
def test_ends_and_words(what: str, code: int, words: str) -> None:
    done = run_module(ME, what, environment={"GIVEN": "this"}, text="that")
    assert (done.returncode, done.stdout) == (code, f"{what} this that torch\n")
    assert done.stderr.endswith(words)
    assert bool(done.stderr) is bool(words)


def test_a_signal_is_its_end() -> None:
    assert run_module(ME, "dies").returncode == -6
    assert run_module(ME, "returns").returncode == 0


def test_out_of_time() -> None:
    """With all that it has started; the next one is answered for itself."""
    with pytest.raises(subprocess.TimeoutExpired):
        run_module(ME, "hangs", timeout=1)
    assert run_module(ME, "exits").returncode == 3


if __name__ == "__main__":
    main()
