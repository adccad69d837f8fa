"""The emulator's failures, each of a different meaning.

A reader of a report must be able to tell *our* gaps from the kernel's faults, so the classes never overlap:

* :class:`AsmError` - the text is not assembly that this project understands.
* :class:`UnsupportedError` - legal gfx9 code for which nobody has written the semantics yet.
* :class:`ReservedError` - code whose effect the ISA manual leaves undefined.
* :class:`LaunchError` - hardware or its runtime refuses the launch; nothing ran.
* :class:`KernelFault` - the kernel did what hardware would punish (bad address, deadlock).
* anything else raised in here is a defect of the emulator itself.
"""

from __future__ import annotations


class EmulatorError(Exception):
    """Base of everything that the emulator raises on purpose."""


class AsmError(EmulatorError):
    """Malformed assembly text; names the line and what was expected there."""

    def __init__(self, message: str, line_number: int = 0, line: str = "") -> None:
        where = f"line {line_number}: {line.strip()}: " if line_number else ""
        super().__init__(f"{where}{message}")
        self.line_number = line_number
        self.line = line


class UnsupportedError(EmulatorError):
    """An instruction, modifier or register that the tables do not cover; never executed as a guess."""

    def __init__(self, message: str, line_number: int = 0, line: str = "") -> None:
        where = f"line {line_number}: {line.strip()}: " if line_number else ""
        super().__init__(f"{where}not supported by the emulator: {message}")
        self.line_number = line_number
        self.line = line


class ReservedError(EmulatorError):
    """The kernel relies on behaviour which the ISA manual declares undefined or reserved."""


class LaunchError(EmulatorError, ValueError):
    """A launch that hardware refuses: what was given, what is accepted. Raised before anything runs."""


class KernelFault(EmulatorError):
    """The kernel did something a GPU answers with a fault. ``findings`` says where."""

    def __init__(self, message: str, findings: tuple = ()) -> None:
        super().__init__(message)
        self.findings = findings


class DeadlockError(KernelFault):
    """No wave can make progress any more; the message says who waits for what."""
