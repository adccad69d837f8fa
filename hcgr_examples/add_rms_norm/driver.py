"""Inputs, and what is right: the sum within one float32 rounding, then the norm of the sum that was stored."""

from __future__ import annotations

from typing import ClassVar

import torch

from hcgr_examples.add_rms_norm.kernel import ROWS, add_rms_norm
from hcgr_examples.add_rms_norm.operation import GRID
from oracle import bounds, inputs
from oracle.rounding import SUBNORMAL32, U32
from validation import kit
from validation.grid import Case

BF16, EPS = torch.bfloat16, 1e-6


class Driver(kit.CallDriver):
    """See :class:`validation.kit.CallDriver`."""

    function, outputs = add_rms_norm, ("x", "residual")
    block, row_bytes = ROWS, staticmethod(lambda params: 2 * params["columns"])
    legal = GRID.decode("m5.n1000.strided.normal")
    illegal: ClassVar = {
        "zero_rows": lambda a: {"x": a["x"][:0], "residual": a["residual"][:0]},
        "dtype": lambda a: {"x": a["x"].float()},
        "columns": lambda a: {"x": a["x"].new_zeros(5, 1004)},
        "weight": lambda a: {"weight": a["weight"][:992]},
        "row_stride": lambda a: {"residual": a["x"].new_zeros(5, 1009)[:, :1000]},
        "overlap": lambda a: {"x": a["residual"]},
    }

    def draw(self, case: Case, place: kit.Placer, rng: torch.Generator) -> kit.Call:
        n, kind = case.params["columns"], inputs.KINDS[case.params["values"] if place.m else "normal"]
        values = {name: kind((place.count, n), rng).to(BF16) for name in self.outputs}
        arguments = {name: place.rows(name, value, n + case.params["padding"]) for name, value in values.items()}
        weight = place.whole("weight", torch.randn(n, generator=rng).to(BF16))
        return kit.Call(arguments | {"weight": weight, "eps": EPS}, values, place)

    def oracle(self, call: kit.Call, outputs: dict[str, torch.Tensor]) -> dict[str, bounds.Bounded]:
        added = call.values["x"].double() + call.values["residual"].double()
        scale = bounds.rrms(outputs["residual"].unsqueeze(1), EPS)  # [M,1]
        weight = call.arguments["weight"].double()
        normed = outputs["residual"].double() * scale.want * weight
        error = normed.abs() * ((bounds.relative(scale) + 2 * U32) * bounds.SLACK) + SUBNORMAL32 * (1 + weight.abs())
        return {"x": bounds.settle(normed, error, BF16), "residual": bounds.settle(added, added.abs() * U32, BF16)}
