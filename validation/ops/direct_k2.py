"""Runs ``flydsl_up_gate_mix_norm`` for the validator: inputs, the call, and what the oracle says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import hcgr
from hcgr import dispatch
from oracle import check_k2, exact, reference
from validation.devices.emulator import capture_asm, open_bench
from validation.grid import Case
from validation.kit import (
    Placer,
    check_exact,
    check_form,
    check_written,
    comparison_of,
    contiguous_spans,
    neighbours,
    rows_of,
)
from validation.operation import Bench, ContractCall, JsonDict, SkipCase, Workgroups
from validation.ops import k2_contract
from validation.ops.allocations import own_allocations, poison_rows
from validation.ops.axes import Shape
from validation.ops.chosen import Recorder, choose_rows
from validation.ops.staged import check_wiring
from validation.ops.tensors import BF16, EPS, activations, norm_form, weights


@dataclass
class Inputs:
    """A case: its tensors and what it runs."""

    bench: Bench
    params: Mapping[str, Any]
    lora: torch.Tensor
    r2: torch.Tensor
    rrms: torch.Tensor
    norm_weight: torch.Tensor
    w_up: torch.Tensor
    out: torch.Tensor | None
    recorder: Recorder
    due: torch.Tensor | None

    @property
    def shape(self) -> Shape:
        """HC, HS, r and n_pad."""
        shape: Shape = self.params["shape"]
        return shape


def _values(count: int, p: Mapping[str, Any], seed: int) -> dict[str, torch.Tensor]:
    """lora, r2, rrms, norm_weight and w_up; and x, where it has one right answer."""
    shape, norm = p["shape"], p["norm"]
    if p["values"] == "exact":
        made = exact.k2_case(count, shape.hc, shape.hs, shape.r, seed=seed)
        norm_weight = norm_form(made.norm_weight, norm, shape.hc)
        return {
            "lora": made.lora,
            "r2": made.r2.reshape(count, shape.width),
            "rrms": made.rrms,
            "norm_weight": norm_weight,
            "w_up": made.w_up,
            "x": made.x,
        }
    rows = activations(count, shape, p["values"], seed)
    rng = exact.generator(seed + 1)
    given = weights(shape, norm, fold=False)
    return {
        "lora": (torch.randn((count, shape.r), generator=rng) * shape.hc).to(BF16),
        "r2": rows.residual,
        "rrms": reference.rrms(rows.residual.reshape(count, shape.hc, shape.hs), EPS),
        "norm_weight": given.norm_weight,
        "w_up": given.w_up,
    }


class K2Driver:
    """See :class:`validation.operation.Driver`."""

    def prepare(self, case: Case, bench: Bench, seed: int) -> Inputs:
        """Inputs of the case. Rows that no chosen workgroup handles stay uncommitted and uninitialised."""
        p = case.params
        m, shape = p["m"], p["shape"]
        rows = choose_rows(m, shape, bench.whole)
        if rows is not None and not bench.sparse:
            raise SkipCase(f"{m} rows of {shape.width} elements need sparse memory, which this device does not have")
        values = _values(m if rows is None else len(rows), p, seed)
        place = Placer(bench, m, [slice(0, m)] if rows is None else contiguous_spans(rows))
        inputs = Inputs(
            bench=bench,
            params=p,
            lora=place.rows("lora", values["lora"], shape.n_pad if p["lora"] == "view" else shape.r),
            r2=place.rows("r2", values["r2"], shape.width + p["row_padding"]),
            rrms=place.rows("rrms", values["rrms"].to(torch.float32)),
            norm_weight=place.whole("norm_weight", values["norm_weight"]),
            w_up=place.whole("w_up", values["w_up"]),
            out=place.output("block_input", shape.hs, BF16) if p["out"] else None,
            recorder=Recorder(bench, rows),
            due=values.get("x"),
        )
        if inputs.out is not None:
            poison_rows(inputs.out, m, self._spans(inputs))
        return inputs

    @staticmethod
    def _spans(inputs: Inputs) -> list[slice] | None:
        rows = inputs.recorder.rows
        if rows is None:
            return None
        return contiguous_spans(sorted({*rows, *neighbours(rows, inputs.params["m"])}))

    def workgroups(self, inputs: Inputs) -> Workgroups:
        """Those that handle the chosen rows; ``None`` for all."""
        return None if inputs.recorder.rows is None else inputs.recorder.workgroups

    def run(self, inputs: Inputs) -> torch.Tensor:
        """One call of the public function."""
        p = inputs.params
        with (
            own_allocations(inputs.bench, "hcgr", p["m"], self._spans(inputs)),
            dispatch.observe(inputs.recorder),
        ):
            return hcgr.flydsl_up_gate_mix_norm(
                inputs.lora,
                inputs.r2,
                inputs.rrms,
                inputs.norm_weight,
                inputs.w_up,
                inputs.shape.hc,
                inputs.out,
                p["block_m"],
                use_tuned=False,
            )

    def check(self, inputs: Inputs, outputs: torch.Tensor) -> list[JsonDict]:
        """Form, elements written, the oracle on the same inputs, and the exact tier."""
        p, shape = inputs.params, inputs.shape
        m = p["m"]
        checks = [check_form("x", outputs, (m, shape.hs), BF16, shape.hs, inputs.out)]
        if not m or not checks[0]["passed"]:
            return checks
        rows = inputs.recorder.rows
        (launch,) = inputs.recorder.of("k2_up_gate_mix")
        result = check_k2(
            outputs,
            inputs.lora,
            inputs.r2,
            inputs.rrms,
            inputs.norm_weight,
            inputs.w_up,
            hc=shape.hc,
            rows=rows,
        )
        checks += [
            check_wiring(
                "launches", {"x": (outputs, launch.tensors["x"]), "lora": (inputs.lora, launch.tensors["lora"])}
            ),
            check_written("x", outputs, rows, neighbours(rows, m)),
            comparison_of("x", "bound", result),
        ]
        if inputs.due is not None:
            checks.append(check_exact("x", outputs, inputs.due, rows))
        return checks

    def results(self, inputs: Inputs, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The rows that ran."""
        return rows_of({"x": outputs}, inputs.recorder.rows)

    def build(self, case: Case, arch: str) -> list[str]:
        """The assembly of the kernel that this case launches: the launch itself is intercepted."""
        bench = open_bench(arch)
        p = case.params
        m, shape = p["m"], p["shape"]

        def blank(*size: int, dtype: torch.dtype = BF16) -> torch.Tensor:
            return bench.empty(size, dtype, "")

        dtype, width = p["norm"]
        inputs = Inputs(
            bench,
            p,
            blank(m, shape.n_pad)[:, : shape.r],
            blank(m, shape.width),
            blank(m, shape.hc, dtype=torch.float32),
            blank(shape.width if width == "full" else shape.hs, dtype=getattr(torch, dtype)),
            blank(shape.width, shape.r),
            None,
            Recorder(bench, []),
            None,
        )
        with capture_asm() as texts:
            self.run(inputs)
        return texts

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The call of one contract row."""
        return k2_contract.call(row, bench)
