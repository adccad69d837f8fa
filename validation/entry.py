"""Start of ``hcgr-validate``: Ctrl-C is answered in one line also while the program's parts are still being imported.

Python raises KeyboardInterrupt wherever it happens to be; inside of an import it may surface as another error, or be
printed and ignored. Nothing has been started or written then, so the process simply leaves. Once workers run, the
command line takes over (``validation.cli``).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # built in; importing signal takes time, in which it may come
import os

#: The exit code of a process that SIGINT ended, as shells give it.
INTERRUPTED = 130


def _leave(number: int, frame: object) -> None:
    os.write(2, b"hcgr-validate: interrupted before anything was run\n")
    os._exit(INTERRUPTED)


def main() -> int:
    """The console script: ``hcgr-validate``."""
    _signal.signal(_signal.SIGINT, _leave)

    from validation.cli import main as run

    return run()
