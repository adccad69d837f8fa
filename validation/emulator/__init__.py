"""Executes gfx942 and gfx950 machine code on any CPU.

``launch`` takes amdgcn assembly text; ``emulate`` routes the launches of FlyDSL programs that run under
``FLYDSL_COMPILE_BACKEND=emulator``. See ``launch.launch`` for arguments.
"""

from .errors import AsmError, DeadlockError, EmulatorError, KernelFault, ReservedError, UnsupportedError
from .findings import Finding
from .launch import LaunchResult, launch
from .memory.space import AddressSpace
from .program import parse_program
from .session import Session, current_session, emulate, launch_raw

__all__ = [
    "AddressSpace", "AsmError", "DeadlockError", "EmulatorError", "Finding", "KernelFault", "LaunchResult",
    "ReservedError", "Session", "UnsupportedError", "current_session", "emulate", "launch", "launch_raw", "parse_program",
]  # fmt: skip
