"""Executes gfx942 and gfx950 machine code on any CPU.

``launch`` takes amdgcn assembly text; ``emulate`` routes the launches of FlyDSL programs that run under
``FLYDSL_COMPILE_BACKEND=emulator``. See ``launch.launch`` for arguments. ``Stream`` and its kin stand in for HIP's,
``explore`` runs a program under many schedules.
"""

from .allocator import CachingAllocator
from .errors import (
    AsmError,
    DeadlockError,
    EmulatorError,
    KernelFault,
    LaunchError,
    ReservedError,
    UnsupportedError,
)
from .exploration import Exploration, explore
from .findings import Finding
from .launch import LaunchResult, launch
from .memory.space import AddressSpace
from .program import parse_program
from .session import Session, current_session, emulate, launch_raw
from .streams import Event, Stream, capture, replay
from .work_queue import Graph

__all__ = [
    "AddressSpace", "AsmError", "CachingAllocator", "DeadlockError", "EmulatorError", "Event", "Exploration", "Finding",
    "Graph", "KernelFault", "LaunchError", "LaunchResult", "ReservedError", "Session", "Stream", "UnsupportedError",
    "capture", "current_session", "emulate", "explore", "launch", "launch_raw", "parse_program", "replay",
]  # fmt: skip
