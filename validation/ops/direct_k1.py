"""Runs ``flydsl_k1_combine_norm_down`` for the validator: inputs, the call, and what the oracle says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

import hcgr
from hcgr import dispatch
from validation.devices.emulator import capture_asm, open_bench
from validation.grid import Case
from validation.kit import Placer, check_exact, check_form, check_written, contiguous_spans, neighbours, rows_of
from validation.operation import Bench, ContractCall, JsonDict, SkipCase, Workgroups
from validation.ops import k1_contract
from validation.ops.allocations import own_allocations, poison_rows
from validation.ops.axes import Shape
from validation.ops.chosen import Recorder, choose_rows
from validation.ops.staged import check_wiring, judge_k1, k1_calls
from validation.ops.tensors import (
    BF16,
    EPS,
    EXACT_EPS,
    Rows,
    Weights,
    activations,
    eps_option,
    exact_rows,
    exact_weights,
    injection_place,
    weights,
)


@dataclass
class Inputs:
    """A case: its tensors and what it runs."""

    bench: Bench
    params: Mapping[str, Any]
    eps: float
    given: Weights
    residual: torch.Tensor
    block_output: torch.Tensor
    injection: torch.Tensor
    buffers: dict[str, torch.Tensor]
    recorder: Recorder
    answers: Rows | None

    @property
    def shape(self) -> Shape:
        """HC, HS, r and n_pad."""
        shape: Shape = self.params["shape"]
        return shape


def _buffers(place: Placer, shape: Shape, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    """Caller-owned outputs, not yet poisoned."""
    forms = {
        "r2_out": (shape.width, BF16),
        "out": (shape.n_pad, BF16),
        "rrms_out": (shape.hc, torch.float32),
    }
    return {name: place.output(name, *forms[name]) for name in names}


class K1Driver:
    """See :class:`validation.operation.Driver`."""

    def prepare(self, case: Case, bench: Bench, seed: int) -> Inputs:
        """Inputs of the case. Rows that no chosen workgroup handles stay uncommitted and uninitialised."""
        p = case.params
        m, shape, fold = p["m"], p["shape"], p["fold"]
        rows = choose_rows(m, shape, bench.whole)
        if rows is not None and not bench.sparse:
            raise SkipCase(f"{m} rows of {shape.width} elements need sparse memory, which this device does not have")
        count = m if rows is None else len(rows)
        answers = None
        if p["values"] == "exact":
            values, exact_case = exact_rows(count, shape, fold, seed, shape.n_pad, shape.r + shape.hc)
            made, answers = exact_weights(exact_case, shape, p["norm"]), values
        else:
            values = activations(count, shape, p["values"], seed)
            made = weights(shape, p["norm"], fold)
        place = Placer(bench, m, [slice(0, m)] if rows is None else contiguous_spans(rows))
        pad = p["row_padding"]
        given = Weights(
            place.whole("norm_weight", made.norm_weight),
            made.w_down,
            made.w_inject,
            made.w_up,
            place.whole("w_dn_merged", made.weight),
            made.live,
        )
        inputs = Inputs(
            bench=bench,
            params=p,
            eps=EXACT_EPS if answers else EPS,
            given=given,
            residual=place.rows("residual", values.residual, shape.width + pad),
            block_output=place.rows("block_output", values.block_output, shape.hs + pad),
            injection=place.rows("injection", values.injection, **injection_place(p["injection"], shape, shape.n_pad)),
            buffers=_buffers(place, shape, p["buffers"]),
            recorder=Recorder(bench, rows),
            answers=answers,
        )
        for buffer in inputs.buffers.values():
            poison_rows(buffer, m, self._spans(inputs))
        return inputs

    @staticmethod
    def _spans(inputs: Inputs) -> list[slice] | None:
        """Rows to poison: those that run and those beside them."""
        rows = inputs.recorder.rows
        if rows is None:
            return None
        return contiguous_spans(sorted({*rows, *neighbours(rows, inputs.params["m"])}))

    def workgroups(self, inputs: Inputs) -> Workgroups:
        """Those that handle the chosen rows; ``None`` for all."""
        return None if inputs.recorder.rows is None else inputs.recorder.workgroups

    def run(self, inputs: Inputs) -> tuple[torch.Tensor, torch.Tensor]:
        """One call of the public function."""
        p = inputs.params
        options: dict[str, Any] = {**inputs.buffers, **p["request"], **eps_option(inputs.eps)}
        with (
            own_allocations(inputs.bench, "hcgr", p["m"], self._spans(inputs)),
            dispatch.observe(inputs.recorder),
        ):
            return hcgr.flydsl_k1_combine_norm_down(
                inputs.residual,
                inputs.block_output,
                inputs.injection,
                inputs.given.norm_weight,
                inputs.given.weight,
                inputs.shape.r,
                inputs.shape.hc,
                **options,
                fold_w=p["fold"],
                gemm_pad=p["gemm_pad"],
            )

    def check(self, inputs: Inputs, outputs: tuple[torch.Tensor, torch.Tensor]) -> list[JsonDict]:
        """Form, elements written, the staged oracle on what the kernels used, and the exact tier."""
        p, shape, buffers = inputs.params, inputs.shape, inputs.buffers
        m, (r2, packed) = p["m"], outputs
        checks = [
            check_form("r2", r2, (m, shape.width), BF16, shape.width, buffers.get("r2_out")),
            check_form("packed", packed, (m, shape.n_pad), BF16, shape.n_pad, buffers.get("out")),
        ]
        if not m or not all(check["passed"] for check in checks):
            return checks
        (call,) = k1_calls(inputs.recorder)
        pairs = {"r2": (r2, call.r2), "packed": (packed, call.packed)}
        if "rrms_out" in buffers:
            pairs["rrms"] = (buffers["rrms_out"], call.rrms)
        rows = inputs.recorder.rows
        beside = neighbours(rows, m)
        written = {"r2": r2, "rrms": call.rrms, "packed": packed}
        checks.append(check_wiring("launches", pairs))
        checks += [check_written(name, tensor, rows, beside) for name, tensor in written.items()]
        checks += judge_k1(
            call,
            inputs.residual,
            inputs.block_output,
            inputs.injection,
            inputs.given.norm_weight,
            inputs.given.weight,
            hc=shape.hc,
            eps=inputs.eps,
            fold=p["fold"],
            live=inputs.given.live,
            exact=inputs.answers is not None,
            rows=rows,
        )
        if inputs.answers is not None:
            due = inputs.answers.r2, inputs.answers.rrms, inputs.answers.packed
            for (name, got), want in zip(written.items(), due, strict=True):
                assert want is not None
                checks.append(check_exact(name, got, want, rows))
        return checks

    def results(self, inputs: Inputs, outputs: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The rows that ran."""
        tensors = {"r2": outputs[0], "packed": outputs[1], "rrms": inputs.buffers.get("rrms_out")}
        return rows_of(tensors, inputs.recorder.rows)

    def build(self, case: Case, arch: str) -> list[str]:
        """The assembly of the kernels that this case launches: the launches themselves are intercepted."""
        bench = open_bench(arch)
        p = case.params
        m, shape = p["m"], p["shape"]

        def blank(*size: int, dtype: torch.dtype = BF16) -> torch.Tensor:
            return bench.empty(size, dtype, "")

        dtype, width = p["norm"]
        norm_weight = blank(shape.width if width == "full" else shape.hs, dtype=getattr(torch, dtype))
        unread = blank(0)
        given = Weights(norm_weight, unread, None, unread, blank(shape.n_pad, shape.width), shape.r + shape.hc)
        rows: dict[str, Any] = {
            "residual": blank(m, shape.width),
            "block_output": blank(m, shape.hs),
            "injection": blank(m, shape.hc),
        }
        inputs = Inputs(bench, p, EPS, given, **rows, buffers={}, recorder=Recorder(bench, []), answers=None)
        with capture_asm() as texts:
            self.run(inputs)
        return texts

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The call of one contract row."""
        return k1_contract.call(row, bench)
