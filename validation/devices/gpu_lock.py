"""One lock file a GPU: two runs on one machine must not share one, nor time or disturb each other.

The lock is the kernel's (``flock``): it goes with the process that took it, however that ended, so a file left behind
locks nothing. What stands in the file is only for the message.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

#: Where the locks of all users lie, unless :data:`VARIABLE` names another folder.
FOLDER = Path("/tmp/hcgr-gpu-locks")
VARIABLE = "HCGR_GPU_LOCKS"


class LockedError(OSError):
    """The lock is another process's, or cannot be taken; the message says which."""


class GpuLock:
    """The lock of one GPU, held from construction until :meth:`release` or the end of the process."""

    def __init__(self, key: str) -> None:
        """Take the lock of the GPU called ``key``, without waiting.

        Raises:
            LockedError: another process holds it, or the file cannot be opened.
        """
        folder = Path(os.environ.get(VARIABLE) or FOLDER)
        self.path = folder / f"{key.replace(':', '.')}.lock"
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                folder.chmod(0o1777)  # like /tmp itself: everybody's, and nobody removes another's file
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise LockedError(f"its lock {self.path} cannot be opened: {error.strerror}") from error
        with contextlib.suppress(
            PermissionError
        ):  # another user's file: it was opened, which is all that locking takes
            os.fchmod(descriptor, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 64, 0).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            raise LockedError(f"{holder} holds its lock {self.path}") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()}\n".encode(), 0)
        self._descriptor: int | None = descriptor

    @property
    def held(self) -> bool:
        """Whether it has not been released yet."""
        return self._descriptor is not None

    def release(self) -> None:
        """Give the lock up; a second time changes nothing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
