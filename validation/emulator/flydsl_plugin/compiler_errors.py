"""Errors that LLVM only prints.

``gpu-module-to-binary{format=isa}`` reports success, with a truncated or wrong text, after errors of the
code generator (LDS over the limit, an operation with no lowering): those go to the process' standard
error alone. So compilation runs with file descriptor 2 copied, and an error line in it is raised.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

_ERROR = re.compile(r"^(?:LLVM ERROR|(?:\S+:\d+:\d+: )?error): ?(.*)$", re.MULTILINE)
_FLUSH_SECONDS = 5.0
_one_at_a_time = threading.RLock()


@dataclass
class Transcript:
    """What reached standard error inside of `copied_stderr`; complete once the context has ended."""

    text: str = ""
    errors: list[str] = field(default_factory=list)


@contextlib.contextmanager
def copied_stderr() -> Iterator[Transcript]:
    """Copy what this process writes to file descriptor 2; it still arrives there, even when it aborts.

    The copy is made by a ``tee`` process, because a pipe read by this process would die with it and take
    the compiler's last words along. One thread at a time: the descriptor belongs to the whole process, so
    what other threads print meanwhile is in the transcript too.
    """
    transcript = Transcript()
    with _one_at_a_time, tempfile.TemporaryDirectory(prefix="flydsl-emulator-") as folder:
        path = os.path.join(folder, "stderr")
        sys.stderr.flush()
        original = os.dup(2)
        try:
            tee = subprocess.Popen(["tee", path], stdin=subprocess.PIPE, stdout=original, stderr=subprocess.DEVNULL)
            assert tee.stdin is not None
            os.dup2(tee.stdin.fileno(), 2)
            tee.stdin.close()
            try:
                yield transcript
            finally:
                sys.stderr.flush()
                os.dup2(original, 2)
                # A process started meanwhile may still hold the pipe open; its output is not the compiler's.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    tee.wait(_FLUSH_SECONDS)
                with open(path, errors="replace") as copy:
                    transcript.text = copy.read()
                transcript.errors = [m.group(0).strip() for m in _ERROR.finditer(transcript.text)]
        finally:
            os.close(original)
