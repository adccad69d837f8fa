"""A driver of a function that takes its tensors by name: what follows from its inputs alone is done here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from validation.devices.emulator import capture_asm, open_bench
from validation.grid import Case
from validation.operation import Bench, ContractCall, JsonDict, Workgroup

Arguments = dict[str, Any]


@dataclass
class Call:
    """One call of the function, and what its checks need to know.

    ``rows`` are those that run, by ``workgroups``; both ``None`` for all. ``notes`` hold what :meth:`CallDriver.check`
    wants to remember, such as an input that the call overwrites.
    """

    case: Case
    arguments: Arguments
    rows: list[int] | None = None
    workgroups: Sequence[Workgroup] | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class CallDriver(ABC):
    """See :class:`validation.operation.Driver`: subclasses say how to prepare a call and how to check it.

    ``legal`` is the case from which contract rows start; ``illegal`` maps a row to the arguments that differ.
    """

    function: ClassVar[Callable[..., Any]]
    legal: ClassVar[Case]
    illegal: ClassVar[Mapping[str, Callable[[Arguments], Arguments]]] = {}

    @abstractmethod
    def prepare(self, case: Case, bench: Bench, seed: int) -> Call:
        """The call of ``case``, equal for equal ``seed``."""

    @abstractmethod
    def check(self, inputs: Call, outputs: Any) -> list[JsonDict]:
        """Compare with the oracle."""

    def workgroups(self, inputs: Call) -> Sequence[Workgroup] | None:
        """Those of the call."""
        return inputs.workgroups

    def run(self, inputs: Call) -> Any:
        """Call the function once."""
        return type(self).function(**inputs.arguments)

    def build(self, case: Case, arch: str) -> list[str]:
        """The assembly of what the call launches; nothing runs."""
        bench = open_bench(arch)
        try:
            inputs = self.prepare(case, bench, 0)
            with capture_asm() as texts:
                self.run(inputs)
        finally:
            bench.close()
        return texts

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The legal call with the arguments of ``row``; no byte of any tensor of either may change."""
        arguments = self.prepare(self.legal, bench, 0).arguments
        given = arguments | self.illegal[row](arguments)
        held = {f"{name} of the legal call": value for name, value in arguments.items()} | given
        tensors = tuple((name, value) for name, value in held.items() if isinstance(value, torch.Tensor))
        return ContractCall(lambda: type(self).function(**given), tensors)
