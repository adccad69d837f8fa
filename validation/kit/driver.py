"""A driver of a function that takes tensors by name and returns outputs by name: what its oracle leaves to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from oracle import compare
from oracle.bounds import Bounded
from validation.devices.emulator import capture_asm, open_bench
from validation.grid import Case
from validation.kit.outputs import check_form, check_written, comparison_of, neighbours, rows_of
from validation.kit.rows import Placer
from validation.operation import Bench, ContractCall, JsonDict, Workgroup

Arguments = dict[str, Any]


@dataclass
class Call:
    """One call, by argument name: what the function is given, and the contiguous values that were placed there."""

    arguments: Arguments
    values: dict[str, Tensor]
    place: Placer


class CallDriver(ABC):
    """See :class:`validation.operation.Driver`: a subclass draws the inputs, and says what is right.

    function: the function under test; returns a tuple of ``outputs``.
    outputs: argument names of the caller's tensors that it writes [M, columns] and returns.
    block: rows of a workgroup, which has number ``row // block``. row_bytes: bytes of a row, by a case's parameters.
    most_rows: taller calls run at their edges only.
    legal, illegal: the case from which contract rows start, and for each row the arguments that differ.
    """

    function: ClassVar[Callable[..., Any]]
    outputs: ClassVar[tuple[str, ...]]
    block: ClassVar[int]
    row_bytes: ClassVar[Callable[..., int]]
    most_rows: ClassVar[int] = 512
    legal: ClassVar[Case]
    illegal: ClassVar[Mapping[str, Callable[[Arguments], Arguments]]] = {}

    @abstractmethod
    def draw(self, case: Case, place: Placer, rng: torch.Generator) -> Call:
        """The call of ``case``; equal for an equally seeded generator."""

    @abstractmethod
    def oracle(self, call: Call, outputs: dict[str, Tensor]) -> dict[str, Bounded]:
        """What is right, by output: from the values of the call, and from outputs where one follows from another."""

    def prepare(self, case: Case, bench: Bench, seed: int) -> Call:
        """Inputs of the rows that run."""
        m = case.params["m"]
        place = Placer.at_edges(bench, m, type(self).row_bytes(case.params), self.block, self.most_rows)
        return self.draw(case, place, torch.Generator().manual_seed(seed))

    def workgroups(self, inputs: Call) -> Sequence[Workgroup] | None:
        """Those that handle the chosen rows."""
        place = inputs.place
        whole = place.count == place.m
        return None if whole else [(group, 0, 0) for group in sorted({row // self.block for row in place.chosen})]

    def run(self, inputs: Call) -> dict[str, Tensor]:
        """Call the function once."""
        return dict(zip(self.outputs, type(self).function(**inputs.arguments), strict=True))

    def check(self, inputs: Call, outputs: dict[str, Tensor]) -> list[JsonDict]:
        """Form of each output; where there are rows, also what was written, and the oracle's bound."""
        place, given = inputs.place, {name: inputs.arguments[name] for name in self.outputs}
        checks = [
            check_form(name, outputs[name], given[name].shape, given[name].dtype, given[name].stride(0), given[name])
            for name in self.outputs
        ]
        if place.m == 0 or not all(check["passed"] for check in checks):
            return checks
        chosen = None if place.count == place.m else place.chosen
        got = {name: tensor if chosen is None else tensor[chosen] for name, tensor in outputs.items()}
        due = self.oracle(inputs, got)
        for name in self.outputs:
            if name not in inputs.values:  # what the call reads and overwrites starts as values, not as poison
                checks.append(check_written(name, outputs[name], chosen, neighbours(chosen, place.m)))
            checks.append(comparison_of(name, "bound", compare(name, got[name], due[name]), chosen))
        return checks

    def results(self, inputs: Call, outputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The rows that ran."""
        return rows_of(outputs, None if inputs.place.count == inputs.place.m else inputs.place.chosen)

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
        """The legal call with the arguments of ``row``; no byte of a tensor of either may change."""
        legal = self.prepare(self.legal, bench, 0).arguments
        given = legal | self.illegal[row](legal)
        held = {f"the legal call's {name}": value for name, value in legal.items()} | given
        tensors = tuple((name, value) for name, value in held.items() if isinstance(value, Tensor))
        return ContractCall(lambda: type(self).function(**given), tensors)
