"""What the front doors accept: each argument of a wrong kind is refused at once, with what was given and what it takes.

A wrong type is a TypeError, a value that there is not a ValueError.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .checks import CHECKS
from .limits import LDS_BYTES
from .machine.options import MachineOptions
from .memory.space import AddressSpace
from .program import Program

#: Architectures that there are tables for.
ARCHS = tuple(LDS_BYTES)


def shown(value: Any) -> str:
    """A value as messages show it: shortened, with its type."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} ({type(value).__name__})"


def one_of(what: str, value: Any, known: Collection[str]) -> str:
    """``value`` if it is one of the names ``known``."""
    if not isinstance(value, str):
        raise TypeError(f"{what} takes one of {', '.join(known)}; got {shown(value)}")
    if value not in known:
        near = difflib.get_close_matches(value, known, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"unknown {what} {value!r}; there are {', '.join(known)}{hint}")
    return value


def texts(what: str, value: Any, example: str) -> tuple[str, ...]:
    """``value`` as a tuple of texts; a single text is none (its letters would be taken one by one)."""
    wanted = f"{what} takes a sequence of texts, as in {example}"
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{wanted}; got {shown(value)}")
    given = tuple(value)
    for item in given:
        if not isinstance(item, str):
            raise TypeError(f"{wanted}; got {shown(item)} in it")
        if not item:
            raise ValueError(f"{wanted}; got an empty one in it")
    return given


def checks(value: Any) -> tuple[str, ...]:
    """Names of checks, each once."""
    given = texts("checks", value, '("memcheck", "initcheck")')
    return tuple(dict.fromkeys(one_of("check", name, CHECKS) for name in given))


def clamps(value: Any) -> tuple[str, ...]:
    """Source places that rely on the range check of a buffer descriptor."""
    return texts("declared_clamps", value, '("kernel.py:12", "other.py")')


def together(names: Collection[str], options: MachineOptions) -> None:
    """Checks that look at a behaviour of the machine which ``options`` do not show."""
    if "racecheck" in names and options.completion != "earliest":
        raise ValueError("racecheck looks at operations as they are issued: run it with completion='earliest'")


def flag(what: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} takes True or False, got {shown(value)}")
    return value


def machine_options(given: Mapping[str, Any]) -> MachineOptions:
    """The fields of :class:`MachineOptions` that are given by name."""
    known = [f.name for f in dataclasses.fields(MachineOptions)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"unknown option {name!r}; there are {', '.join(known)}{hint}")
    return MachineOptions(**given)


def common(
    *, space: Any, workgroups: Any, schedule: Any, branch_limit: Any, bound_views: Any, by_function: bool
) -> None:
    """What ``launch`` and ``emulate`` both take."""
    if space is not None and not isinstance(space, AddressSpace):
        raise TypeError(f"space takes an AddressSpace or None, got {shown(space)}")
    chosen = isinstance(workgroups, Iterable) and not isinstance(workgroups, str | bytes)
    if not (workgroups is None or chosen or (by_function and callable(workgroups))):
        wanted = "coordinates as in [(0, 0, 0)]" + (", a function of (kernel name, grid)" if by_function else "")
        raise TypeError(f"workgroups takes {wanted}, or None for all; got {shown(workgroups)}")
    if not isinstance(schedule, str):
        raise TypeError(f"schedule takes the name of a schedule, as in 'random:7'; got {shown(schedule)}")
    if isinstance(branch_limit, bool) or not isinstance(branch_limit, int):
        raise TypeError(f"branch_limit takes a whole number from 1 on, got {shown(branch_limit)}")
    if branch_limit < 1:
        raise ValueError(f"branch_limit takes a whole number from 1 on, got {branch_limit}")
    flag("bound_views", bound_views)


def assembly(asm: Any, kernel: Any, *, parsed: bool) -> None:
    """The text of a launch and the name of its kernel."""
    if not isinstance(asm, str) and not (parsed and isinstance(asm, Program)):
        takes = "a text or a parsed Program" if parsed else "a text"
        raise TypeError(f"asm takes {takes} of amdgcn assembly, got {shown(asm)}")
    if kernel is not None and not isinstance(kernel, str):
        raise TypeError(f"kernel takes the name of a kernel, or None where the text holds one; got {shown(kernel)}")


def arguments(value: Any) -> Sequence[Any]:
    """The explicit arguments of a kernel: a list or a tuple of them, not one of them."""
    if not isinstance(value, list | tuple):
        raise TypeError(f"args takes a list or tuple, one value for each argument of the kernel; got {shown(value)}")
    return value


def stream_handle(stream: Any) -> int:
    """The handle of a stream: of an object with ``cuda_stream``, itself, or 0 for None."""
    handle = getattr(stream, "cuda_stream", stream)
    if handle is None:
        return 0
    if isinstance(handle, bool) or not isinstance(handle, int):
        raise TypeError(f"stream takes a Stream, its handle (an int) or None; got {shown(stream)}")
    return handle
