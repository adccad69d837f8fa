"""A worktree of the base that is gone afterwards, whatever ends the run, and leaves no trace in the repository."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from validation.base.git import GitError, git
from validation.base.revision import Base

_ENDING = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Within the block, Ctrl-C and SIGTERM wait; the first of them takes effect at its end.

    Blocking them would not do: a process with other threads is handed the signal through one of those.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread only
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda given, frame: came.append(given)) for number in _ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if came:
            signal.raise_signal(came[0])


@contextmanager
def checked_out(base: Base) -> Iterator[Path]:
    """A private folder, in which ``tree`` is a detached worktree of ``base``; both are removed at the end.

    Raises:
        GitError: git cannot check the commit out.
    """
    folder: Path | None = None
    try:
        with undisturbed():
            folder = Path(tempfile.mkdtemp(prefix="hcgr-base-"))
            git(base.repository, "worktree", "add", "--detach", "--force", str(folder / "tree"), base.commit)
        yield folder
    finally:
        with undisturbed():
            if folder is not None:
                _remove(base.repository, folder)


def _remove(repository: Path, folder: Path) -> None:
    """Git forgets the worktree and its files go, also when it was only half made."""
    tree = folder / "tree"
    with suppress(GitError):  # half made: what is left of it is cleared below
        git(repository, "worktree", "remove", "--force", "--force", str(tree))
    shutil.rmtree(folder, ignore_errors=True)
    if str(tree) in git(repository, "worktree", "list", "--porcelain"):
        with suppress(GitError):  # not locked
            git(repository, "worktree", "unlock", str(tree))
        git(repository, "worktree", "prune")
