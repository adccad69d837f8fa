"""Whose fault an exception is: the code under test's, or that of whatever runs it."""

from __future__ import annotations

#: Exceptions that say something about the machine or the installation, wherever they are raised.
CIRCUMSTANCES = (ImportError, MemoryError, OSError)


def raised_in(error: BaseException) -> str:
    """Top-level package of the frame that raised ``error``; empty when it has no traceback."""
    name, trace = "", error.__traceback__
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        trace = trace.tb_next
    return name.partition(".")[0]


def is_ours(error: BaseException) -> bool:
    """Whether ``error`` comes from this package or from the circumstances, so that it accuses nobody else."""
    return isinstance(error, CIRCUMSTANCES) or raised_in(error) == "validation"
