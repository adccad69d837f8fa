"""What FlyDSL's launchers are handed on a GPU, and which kernels of a profiler's trace they launched.

A trace names kernels and grids, not arguments. So each call of a launcher is marked in it, and a kernel is told by the
call within which the host asked for it: kernel and request share a correlation number. A kernel that no call asked for
(torch's own) has arguments that nobody has seen.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from unittest import mock

if TYPE_CHECKING:  # the command line asks for devices, and need not load an emulator for that
    from validation.emulator.arguments import PointedTo

#: Beginning of the name under which a call stands in a trace; its number follows.
MARK = "hcgr launcher call "
#: Categories of a trace's events: marks of ours, and what the host asked of the driver.
_MARKS = ("user_annotation",)
_REQUESTS = ("cuda_runtime", "cuda_driver", "hip_runtime")

#: What one call was handed, by name.
Seen: TypeAlias = "dict[str, PointedTo]"


@dataclass
class Memory:
    """The tensors that a bench knows by name; of those that lie at one address the one named last counts."""

    known: dict[int, tuple[str, Any]] = field(default_factory=dict)

    def add(self, name: str, tensor: Any) -> None:
        """``tensor`` is called ``name`` from now on."""
        if tensor.numel():
            self.known.pop(int(tensor.data_ptr()), None)
            self.known[int(tensor.data_ptr())] = name, tensor

    def find(self, address: int) -> tuple[str, PointedTo] | None:
        """Name of the tensor that ``address`` leads into, and how it does."""
        from validation.emulator.arguments import PointedTo

        for start, (name, tensor) in reversed(self.known.items()):
            found = PointedTo.of(tensor, address - start)
            if 0 <= found.offset < found.size:
                return name, found
        return None

    def seen(self, arguments: Sequence[Any]) -> Seen:
        """What the arguments of a launcher lead to, by name.

        A tensor, or an address that carries its tensor, is called what it says (``name``), or else as the bench calls
        what lies there; a bare address counts if it is one of the bench's memory.
        """
        from validation.emulator.arguments import PointedTo
        from validation.emulator.flydsl_plugin.runtime import tensors_in

        found: Seen = {}
        for position, argument in enumerate(arguments):
            label = getattr(argument, "name", None)
            tensors = [tensor for tensor in tensors_in(argument) if tensor.numel()]
            for tensor in tensors:
                known = self.find(int(tensor.data_ptr()))
                name = label if isinstance(label, str) else known[0] if known else f"argument {position}"
                found[name if name not in found else f"{name} ({position})"] = PointedTo.of(tensor)
            address = None if tensors else _bare(argument)
            known = None if address is None else self.find(address)
            if known is not None:
                found[known[0] if known[0] not in found else f"{known[0]} ({position})"] = known[1]
        return found


def _bare(argument: Any) -> int | None:
    """The address that an integer, a ``c_void_p`` or FlyDSL's wrapper of one is."""
    argument = getattr(argument, "pointer", argument)
    argument = argument.value if isinstance(argument, ctypes.c_void_p) else argument
    return int(argument) if isinstance(argument, int) else None


@contextmanager
def watched(
    memory: Memory, owner: type, name: str, mark: Callable[[str], AbstractContextManager[Any]]
) -> Iterator[list[Seen]]:
    """Within the block, note what each call of ``owner.name(self, arguments)`` is handed, and ``mark`` it by number."""
    calls: list[Seen] = []
    original = getattr(owner, name)

    @functools.wraps(original)
    def call(self: Any, arguments: Sequence[Any]) -> Any:
        calls.append(memory.seen(arguments))
        with mark(f"{MARK}{len(calls) - 1}"):
            return original(self, arguments)

    with mock.patch.object(owner, name, call):
        yield calls


def by_correlation(trace: Mapping[str, Any], calls: Sequence[Seen]) -> dict[Any, Seen]:
    """What was handed to the call that asked for a kernel, by the kernel's correlation number."""
    events = trace.get("traceEvents", ())
    marks = [
        (event["tid"], float(event["ts"]), float(event["ts"]) + float(event["dur"]), int(event["name"][len(MARK) :]))
        for event in events
        if event.get("cat") in _MARKS and str(event.get("name", "")).startswith(MARK)
    ]
    found: dict[Any, Seen] = {}
    for event in events:
        correlation = event.get("args", {}).get("correlation")
        if event.get("cat") not in _REQUESTS or correlation is None:
            continue
        for thread, begin, end, number in marks:
            if event["tid"] == thread and begin <= float(event["ts"]) <= end:
                found[correlation] = calls[number]
    return found
