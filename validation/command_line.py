"""What the four console commands share: a parser that raises, and the frame around the work of a command.

Bad arguments, Ctrl-C, an error of our own, a full disk and a reader that has gone away (``hcgr-mutate --list | head``)
each end a command with one line and an exit code, the same way everywhere.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NoReturn

from validation.report.verdict import EXIT_CODES, EXIT_INTERRUPTED, EXIT_USAGE

#: What the system says where there is no room left to write to.
_FULL = (errno.ENOSPC, errno.EDQUOT)


class UsageError(Exception):
    """Bad arguments; the message is one line for the user."""


class Parser(argparse.ArgumentParser):
    """Raises :class:`UsageError` where ``argparse`` would print and exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments."""
        raise UsageError(message)


@dataclass(frozen=True)
class CommandLine:
    """One command, called ``name``.

    ``usage``: exceptions that mean bad arguments, beside :class:`UsageError`. ``refusals``: exceptions that mean a
    verdict against what was given, with the lines to print; they end in exit code 1. ``interrupted`` and ``about`` end
    the sentences that an interrupt and an internal error print. ``failed`` is the exit code where nothing was proved.
    """

    name: str
    usage: tuple[type[Exception], ...] = ()
    refusals: Mapping[type[Exception], Callable[[Exception], list[str]]] = field(default_factory=dict)
    interrupted: str = "interrupted"
    about: str = "this says nothing about the code under test"
    failed: int = EXIT_CODES["INCONCLUSIVE"]

    def complain(self, *lines: str) -> None:
        """Print lines to standard error, each under the command's name."""
        for line in lines:
            print(f"{self.name}: {line}", file=sys.stderr, flush=True)

    def run(self, work: Callable[[], int]) -> int:
        """The exit code of ``work()``, or of what ended it."""
        try:
            code = work()
            sys.stdout.flush()  # a closed pipe is noticed here, not at exit, where nobody could catch it
            return code
        except KeyboardInterrupt:
            self.complain(self.interrupted)
            return EXIT_INTERRUPTED
        except BrokenPipeError:
            self._discard_output()
            return self.failed
        except Exception as error:  # of any kind: shown with its trace, never exit code 1, which accuses the kernel
            return self._ended_by(error)

    @staticmethod
    def _discard_output() -> None:
        """Nobody takes what is printed: the flush at exit must not complain again."""
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _ended_by(self, error: Exception) -> int:
        if isinstance(error, (UsageError, *self.usage)):
            said = str(error) if isinstance(error, OSError) or not error.args else error.args[0]
            self.complain(f"error: {said} (see {self.name} --help)")
            return EXIT_USAGE
        for kind, say in self.refusals.items():
            if isinstance(error, kind):
                self.complain(*say(error))
                return EXIT_CODES["FAIL"]
        if isinstance(error, OSError) and error.errno in _FULL:
            self._discard_output()
            where = error.filename or "what it prints or keeps"
            self.complain(f"ended: {where} cannot be written: {error.strerror}; {self.about}")
            return self.failed
        traceback.print_exception(error)
        self.complain(f"internal error: {type(error).__name__}: {error}; {self.about}")
        return self.failed
