"""Runs ``combine_and_mix`` and ``mix`` for the validator: inputs, the call, and what the oracle says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

import hcgr
from hcgr import dispatch
from oracle import check_combine_and_mix, check_folded_weight, check_mix, reference
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
    stage_records,
)
from validation.operation import Bench, ContractCall, JsonDict, SkipCase, Workgroups
from validation.ops import mix_contract
from validation.ops.allocations import own_allocations
from validation.ops.axes import Shape
from validation.ops.chosen import Recorder, choose_rows
from validation.ops.planning import planned
from validation.ops.shapes_due import merged_rows
from validation.ops.staged import check_wiring, judge_k1, judge_k2, k1_calls
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

#: Rows at each end of a large call that are compared end to end.
_END_ROWS = 16


@dataclass
class Layer:
    """One call: what it was given and what it returned."""

    residual: torch.Tensor
    block_output: torch.Tensor | None
    injection: torch.Tensor | None
    r2: torch.Tensor
    x: torch.Tensor
    inj_next: torch.Tensor | None


@dataclass
class Inputs:
    """A case: its tensors, what it runs, and (after the run) its layers."""

    bench: Bench
    params: Mapping[str, Any]
    arch: str
    n_pad: int
    eps: float
    given: Weights
    residual: torch.Tensor
    block_output: torch.Tensor
    injection: torch.Tensor
    recorder: Recorder
    answers: Rows | None
    layers: list[Layer] = field(default_factory=list)

    @property
    def shape(self) -> Shape:
        """HC, HS, r and n_pad of the case's shape."""
        shape: Shape = self.params["shape"]
        return shape

    @property
    def m(self) -> int:
        """Token rows."""
        return int(self.params["m"])


def _weight_form(params: Mapping[str, Any]) -> tuple[bool, bool]:
    """(whether there are inject rows, whether the caller merges the weight) of a case."""
    return params["weight"] != "final", params["weight"] != "unmerged"


def _sample(inputs: Inputs) -> list[int] | None:
    """Rows of the end-to-end check: all of a few, else the first and the last ones.

    A fault of one row in many is the staged checks' business; this one is about wiring.
    """
    rows = inputs.recorder.rows or list(range(inputs.m))
    if len(rows) <= 2 * _END_ROWS:
        return inputs.recorder.rows
    return rows[:_END_ROWS] + rows[-_END_ROWS:]


def _finite(rows: list[int], layer: Layer, call: Any) -> list[int]:
    """Those of ``rows`` in which no stage met anything but numbers."""
    stages = [
        t
        for t in (layer.residual, layer.block_output, layer.injection, call.r2, call.rrms, call.packed)
        if t is not None
    ]
    return [row for row in rows if all(bool(torch.isfinite(t[row]).all()) for t in (*stages, layer.x))]


class _TwoStage:
    """Both entry points; see :class:`validation.operation.Driver`."""

    combine: bool

    def prepare(self, case: Case, bench: Bench, seed: int) -> Inputs:
        """Inputs of the case. Rows that no chosen workgroup handles stay uncommitted and uninitialised."""
        p = case.params
        m, shape, fold = p["m"], p["shape"], p["fold"]
        inject, merged = _weight_form(p)
        rows = choose_rows(m, shape, bench.whole)
        if rows is not None and not bench.sparse:
            raise SkipCase(f"{m} rows of {shape.width} elements need sparse memory, which this device does not have")
        count = m if rows is None else len(rows)
        n_pad = merged_rows(shape, inject, merged)
        live = shape.r + (shape.hc if inject else 0)
        answers = None
        if p["values"] == "exact":
            values, exact_case = exact_rows(count, shape, fold, seed, n_pad, live)
            made = exact_weights(exact_case, shape, p["norm"], inject)
            answers = values
        else:
            values = activations(count, shape, p["values"], seed)
            made = weights(shape, p["norm"], fold, inject, n_pad)
        residual = values.residual if self.combine or values.r2 is None else values.r2
        place = Placer(bench, m, [slice(0, m)] if rows is None else contiguous_spans(rows))
        pad = p["row_padding"]
        injection = p.get("injection", "dense")
        return Inputs(
            bench=bench,
            params=p,
            arch=getattr(bench, "arch", ""),
            n_pad=n_pad,
            eps=EXACT_EPS if answers else EPS,
            given=self._placed(place, made, merged),
            residual=place.rows("residual", residual, shape.width + pad),
            block_output=place.rows("block_output", values.block_output, shape.hs + pad),
            injection=place.rows("injection", values.injection, **injection_place(injection, shape, n_pad)),
            recorder=Recorder(bench, rows),
            answers=answers,
        )

    @staticmethod
    def _placed(place: Placer, made: Weights, merged: bool) -> Weights:
        """The weights on the bench. Those that the op merges itself are given unmerged, the others merged."""
        w_inject = None if made.w_inject is None else place.whole("w_inject", made.w_inject)
        return Weights(
            place.whole("norm_weight", made.norm_weight),
            place.whole("w_down", made.w_down),
            w_inject,
            place.whole("w_up", made.w_up),
            place.whole("w_down_merged", made.weight) if merged else made.weight,
            made.live,
        )

    def workgroups(self, inputs: Inputs) -> Workgroups:
        """Those that handle the chosen rows; ``None`` for all."""
        return None if inputs.recorder.rows is None else inputs.recorder.workgroups

    def run(self, inputs: Inputs) -> list[Layer]:
        """The calls, one a layer; what they allocate starts as poison."""
        p, rows = inputs.params, inputs.recorder.rows
        spans = None if rows is None else contiguous_spans([*sorted({*rows, *neighbours(rows, inputs.m)})])
        state = (inputs.residual, inputs.block_output, inputs.injection)
        with (
            planned(p["plan"], inputs.arch, inputs.shape._replace(n_pad=inputs.n_pad), inputs.given.live, p["fold"]),
            own_allocations(inputs.bench, "hcgr", inputs.m, spans),
            dispatch.observe(inputs.recorder),
        ):
            for layer in range(p["layers"]):
                inputs.layers.append(self._call(inputs, state, self.combine or layer > 0))
                last = inputs.layers[-1]
                if last.inj_next is not None:
                    state = (last.r2, last.x, last.inj_next)
        return inputs.layers

    @staticmethod
    def _call(inputs: Inputs, state: tuple[torch.Tensor, torch.Tensor, torch.Tensor], combine: bool) -> Layer:
        given, p = inputs.given, inputs.params
        merged = given.weight if _weight_form(p)[1] else None
        residual, block_output, injection = state
        tail = (
            given.norm_weight,
            given.w_down,
            given.w_up,
            given.w_inject,
            inputs.shape.hc,
        )
        options: dict[str, Any] = {"w_down_merged": merged, "fold_w": p["fold"], **eps_option(inputs.eps)}
        if combine:
            results = hcgr.flydsl_gr_two_stage_combine_and_mix(residual, block_output, injection, *tail, **options)
            return Layer(residual, block_output, injection, *results)
        return Layer(residual, None, None, *hcgr.flydsl_gr_two_stage_mix(residual, *tail, **options))

    def check(self, inputs: Inputs, outputs: list[Layer]) -> list[JsonDict]:
        """Form, elements written, staged oracle on what the kernels used, exact tier, and the whole end to end."""
        records = []
        calls, seconds = k1_calls(inputs.recorder), inputs.recorder.of("k2_up_gate_mix")
        for number, layer in enumerate(outputs):
            own = self._forms(inputs, layer)
            if inputs.m and all(check["passed"] for check in own):
                own += self._values(inputs, layer, calls[number], seconds[number])
            formed = all(check["passed"] for check in own if check["tier"] == "form")
            if number == 0 and inputs.answers is not None and inputs.m and formed:
                own += self._exact(inputs, calls[0])
            prefix = f"layer {number + 1} " if len(outputs) > 1 else ""
            records += [{**check, "output": prefix + check["output"]} for check in own]
        return records

    @staticmethod
    def _forms(inputs: Inputs, layer: Layer) -> list[JsonDict]:
        m, shape = inputs.m, inputs.shape
        same = layer.residual if layer.block_output is None else None
        stride = shape.width if same is None else layer.residual.stride(0)
        checks = [
            check_form("r2", layer.r2, (m, shape.width), BF16, stride, same),
            check_form("x", layer.x, (m, shape.hs), BF16, shape.hs),
        ]
        if inputs.given.w_inject is not None:
            checks.append(check_form("inj_next", layer.inj_next, (m, shape.hc), BF16, inputs.n_pad))
        elif layer.inj_next is not None:
            raise AssertionError("inj_next must be None without inject rows")
        return checks

    @staticmethod
    def _values(inputs: Inputs, layer: Layer, call: Any, second: dispatch.Launch) -> list[JsonDict]:
        given, shape, rows, p = inputs.given, inputs.shape, inputs.recorder.rows, inputs.params
        beside = neighbours(rows, inputs.m)
        pairs = {
            "r2": (call.r2, layer.r2),
            "x": (second.tensors["x"], layer.x),
            "lora": (second.tensors["lora"], call.packed),
            "rrms": (second.tensors["rrms"], call.rrms),
            "K2's r2": (second.tensors["r2"], layer.r2),
        }
        if layer.inj_next is not None:
            pairs["inj_next"] = (layer.inj_next, call.packed[:, shape.r :])
        form = check_form("rrms", call.rrms, (inputs.m, shape.hc), torch.float32, shape.hc)
        if not form["passed"]:
            return [form]
        written = {"rrms": call.rrms, "packed": call.packed, "x": layer.x}
        if layer.block_output is not None:
            written["r2"] = layer.r2
        checks = [check_wiring("launches", pairs)]
        checks += [check_written(name, tensor, rows, beside) for name, tensor in written.items()]
        if p["weight"] == "unmerged" and p["fold"]:
            merged = reference.merge_weight(given.w_down, given.w_inject, inputs.n_pad)
            result = check_folded_weight(call.weight, merged, given.norm_weight, shape.hc)
            checks.append(comparison_of("weight", "bound", result))
        checks += judge_k1(
            call,
            layer.residual,
            layer.block_output,
            layer.injection,
            given.norm_weight,
            given.weight,
            hc=shape.hc,
            eps=inputs.eps,
            fold=p["fold"],
            live=given.live,
            exact=inputs.answers is not None and len(inputs.layers) == 1,
            rows=rows,
        )
        checks += judge_k2(second, given.norm_weight, given.w_up, shape.hc, rows)
        sample = _sample(inputs)
        if p["values"] == "special":  # end to end, uncertainty about an infinity leaves nothing to compare
            sample = _finite(sample or list(range(inputs.m)), layer, call)
            if not sample:
                return checks
        options = {
            "hc": shape.hc,
            "eps": inputs.eps,
            "fold_w": p["fold"],
            "splits": call.splits,
            "rows": sample,
        }
        tail = (layer.residual, given.norm_weight, given.weight, given.w_up)
        if layer.block_output is None:
            ends = check_mix(layer.x, layer.inj_next, *tail, **options)
        else:
            head = (layer.r2, layer.x, layer.inj_next, layer.residual, layer.block_output, layer.injection)
            ends = check_combine_and_mix(*head, *tail[1:], **options)
        return [*checks, *stage_records(ends, {}, "end to end")]

    def _exact(self, inputs: Inputs, call: Any) -> list[JsonDict]:
        answers, rows = inputs.answers, inputs.recorder.rows
        assert answers is not None
        due = {"r2": (call.r2, answers.r2), "rrms": (call.rrms, answers.rrms), "packed": (call.packed, answers.packed)}
        return [check_exact(name, got, want, rows) for name, (got, want) in due.items() if want is not None]

    def results(self, inputs: Inputs, outputs: list[Layer]) -> dict[str, torch.Tensor]:
        """The rows that ran, of every layer."""
        tensors = {
            f"{name} of layer {number}": tensor
            for number, layer in enumerate(outputs, 1)
            for name, tensor in (("r2", layer.r2), ("x", layer.x), ("inj_next", layer.inj_next))
        }
        return rows_of(tensors, inputs.recorder.rows)

    def build(self, case: Case, arch: str) -> list[str]:
        """The assembly of the kernels that this case launches: the launches themselves are intercepted."""
        bench = open_bench(arch)
        p = dict(case.params)
        m, shape = p["m"], p["shape"]
        inject, merged = _weight_form(p)
        n_pad = merged_rows(shape, inject, merged)
        live = shape.r + (shape.hc if inject else 0)

        def blank(*size: int, dtype: torch.dtype = BF16) -> torch.Tensor:
            return bench.empty(size, dtype, "")

        dtype, width = p["norm"]
        norm_weight = blank(shape.width if width == "full" else shape.hs, dtype=getattr(torch, dtype))
        given = Weights(
            norm_weight,
            blank(shape.r, shape.width),
            blank(shape.hc, shape.width) if inject else None,
            blank(shape.width, shape.r),
            blank(n_pad, shape.width),
            live,
        )
        rows: dict[str, Any] = {
            "residual": blank(m, shape.width),
            "block_output": blank(m, shape.hs),
            "injection": blank(m, shape.hc),
        }
        # Merging and folding are torch's own work: building needs only the result.
        p |= {"weight": "merged" if inject else "final", "layers": min(p["layers"], 2)}
        inputs = Inputs(bench, p, arch, n_pad, EPS, given, recorder=Recorder(bench, []), answers=None, **rows)
        with capture_asm() as texts:
            self.run(inputs)
        return texts

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The call of one contract row."""
        return mix_contract.call(row, bench, self.combine)


class CombineAndMixDriver(_TwoStage):
    """``flydsl_gr_two_stage_combine_and_mix``."""

    combine = True


class MixDriver(_TwoStage):
    """``flydsl_gr_two_stage_mix``, and in a chain ``combine_and_mix`` behind it."""

    combine = False
