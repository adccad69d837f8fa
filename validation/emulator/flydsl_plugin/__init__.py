"""FlyDSL backend ``emulator``: an unmodified FlyDSL program runs on CPU tensors, in this emulator.

Registered through the entry point group ``flydsl.backends``; selected with::

    FLYDSL_COMPILE_BACKEND=emulator ARCH=gfx942 FLYDSL_GPU_ARCH=gfx942 python program.py

FlyDSL then compiles the program's kernels to gfx9 ISA text (`backend`), its launchers call this package
instead of the HIP runtime (`shims`, `host_abi`), and every launch goes to the emulator (`runtime`). An
exception of a launch reaches the caller of the launcher (`flydsl_hooks`). FlyDSL 0.4.1 to 0.5.x.

A launch has completed when its call returns, unless the session is concurrent (``emulate(concurrent=True)``): then its
stream and events order it, and it runs when the session synchronises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .runtime import HostCallError, KernelLaunch, Launcher, launches_to, live_arguments, live_tensors, set_launcher

if TYPE_CHECKING:
    from .backend import EmulatorBackend

__all__ = [
    "EmulatorBackend",
    "HostCallError",
    "KernelLaunch",
    "Launcher",
    "launches_to",
    "live_arguments",
    "live_tensors",
    "set_launcher",
]


def __getattr__(name: str) -> Any:
    """Import the backend on first use: FlyDSL imports it while it is itself half imported."""
    if name == "EmulatorBackend":
        import flydsl.compiler.backends  # noqa: F401  its import loads this very entry point, so it comes first

        from .backend import EmulatorBackend

        return EmulatorBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
