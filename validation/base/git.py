"""Git, as this package calls it: never from a hook's environment, never through a hook, never in the caller's index."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

#: Set by git while it runs a hook, and then in the way of every other repository.
_IN_THE_WAY = ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR")
_OPTIONS = ("--no-optional-locks", "-c", "core.hooksPath=/dev/null")
TIMEOUT_S = 300.0


class GitError(OSError):
    """Git refused; the message is its first line."""


def git(folder: Path, *arguments: str) -> str:
    """Standard output of ``git arguments`` in ``folder``; :class:`GitError` when it fails or is not there."""
    environment = {name: value for name, value in os.environ.items() if name not in _IN_THE_WAY}
    environment |= {"GIT_LFS_SKIP_SMUDGE": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *_OPTIONS, "-C", str(folder), *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=environment,
            timeout=TIMEOUT_S,
            start_new_session=True,  # Ctrl-C is for the validator, which ends what git has begun
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitError(f"git cannot be run: {error}") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip() or f"git exited with {done.returncode}"
        raise GitError(words.splitlines()[0].removeprefix("fatal: "))
    return done.stdout.decode(errors="surrogateescape")
