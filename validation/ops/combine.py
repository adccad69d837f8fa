"""Runs ``flydsl_gr_two_stage_combine`` for the validator: inputs, the call, and what the oracle says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import hcgr
from hcgr import arch as arch_table
from hcgr.plan import CombinePlan, plan_combine
from oracle import compare_exact, reference
from oracle.checks import check_combine
from validation.devices.emulator import capture_asm, open_bench
from validation.grid import Case
from validation.kit import Placer, check_written, comparison_of, contiguous_spans, neighbours, rows_of, simple_check
from validation.operation import Bench, ContractCall, JsonDict, SkipCase, Workgroup
from validation.ops import combine_contract
from validation.ops.common import fill, poisoned_allocations

#: Elements of r2 that a case may have before only chosen workgroups run: a second or so of emulation.
MOST_ELEMENTS = 1 << 20

BF16 = torch.bfloat16


@dataclass
class Inputs:
    """One call. ``rows`` are those that run and are compared; ``neighbours`` must keep their poison."""

    m: int
    hc: int
    hs: int
    values: str
    residual: torch.Tensor
    block_output: torch.Tensor
    injection: torch.Tensor
    norm_weight: torch.Tensor
    out: torch.Tensor | None
    rows: list[int]
    neighbours: list[int]
    workgroups: list[Workgroup] | None


class CombineDriver:
    """See :class:`validation.operation.Driver`."""

    def prepare(self, case: Case, bench: Bench, seed: int) -> Inputs:
        """Inputs of the case. Rows that no chosen workgroup handles stay uncommitted and uninitialised."""
        p = case.params
        m, hc, hs = p["m"], p["hc"], p["hs"]
        generator = torch.Generator().manual_seed(seed)
        plan = plan_combine(m, hc, hs, arch_table.cus_of_device(torch.device("cpu"))) if m else None
        rows, workgroups = choose_rows(m, hc * hs, plan, generator)
        if workgroups is not None and not bench.sparse:
            raise SkipCase(f"{m} rows of {hc * hs} elements need sparse memory, which this device does not have")
        place = Placer(bench, m, contiguous_spans(rows))
        width, pad, inj_stride = hc * hs, p["row_padding"], p["injection_stride"]

        def drawn(name: str, columns: int) -> torch.Tensor:
            values = torch.empty((len(rows), columns), dtype=BF16)
            fill(values, p["values"], name, generator)
            return values

        residual = place.rows("residual", drawn("residual", width), width + pad)
        block_output = place.rows("block_output", drawn("block_output", hs), hs + pad)
        injection = place.rows("injection", drawn("injection", hc), inj_stride, first=min(320, inj_stride - hc))
        shape = (hs,) if p["weight_shape"] == "shared" else (width,)
        weight = torch.randn(shape, generator=generator)
        norm_weight = place.whole("norm_weight", weight.to(getattr(torch, p["weight_dtype"])))
        beside = neighbours(rows, m)
        out = None
        if p["out"]:
            out = place.poisoned("out", width, BF16)
        return Inputs(
            m, hc, hs, p["values"], residual, block_output, injection, norm_weight, out, rows, beside, workgroups
        )

    def workgroups(self, inputs: Inputs) -> Sequence[Workgroup] | None:
        """Those that handle ``inputs.rows``; ``None`` for all."""
        return inputs.workgroups

    def run(self, inputs: Inputs) -> torch.Tensor:
        """One call of the public function; an output that it allocates starts as poison."""
        with poisoned_allocations():
            return hcgr.flydsl_gr_two_stage_combine(
                inputs.residual, inputs.block_output, inputs.injection, inputs.norm_weight, inputs.hc, out=inputs.out
            )

    def check(self, inputs: Inputs, outputs: torch.Tensor) -> list[JsonDict]:
        """Form of the result, elements written, and the oracle: bound tier always, exact tier where it applies."""
        checks = [check_form(inputs, outputs)]
        if not checks[0]["passed"] or inputs.m == 0:
            return checks
        rows = inputs.rows
        checks.append(check_written("r2", outputs, rows, inputs.neighbours))
        checks.append(
            comparison_of(
                "r2",
                "bound",
                check_combine(
                    outputs,
                    inputs.residual,
                    inputs.block_output,
                    inputs.injection,
                    inputs.hc,
                    rows=rows if inputs.workgroups is not None else None,
                ),
            )
        )
        if inputs.values == "exact":
            index = torch.tensor(rows)
            residual, block_output, injection = (
                t.index_select(0, index) for t in (inputs.residual, inputs.block_output, inputs.injection)
            )
            want = reference.combine(residual, block_output, injection, inputs.hc).reshape(len(rows), -1)
            checks.append(comparison_of("r2", "exact", compare_exact("r2", outputs.index_select(0, index), want), rows))
        return checks

    def results(self, inputs: Inputs, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
        """The rows that ran."""
        return rows_of({"r2": outputs}, None if inputs.workgroups is None else inputs.rows)

    def build(self, case: Case, arch: str) -> list[str]:
        """The assembly of the kernel that this case launches: the launch itself is intercepted."""
        p = case.params
        m, hc, hs = p["m"], p["hc"], p["hs"]
        bench = open_bench(arch)
        residual, block_output, injection, out = (
            bench.empty((m, columns), BF16, "") for columns in (hc * hs, hs, hc, hc * hs)
        )
        with capture_asm() as texts:
            hcgr.flydsl_gr_two_stage_combine(residual, block_output, injection, torch.ones(hs), hc, out=out)
        return texts

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The call of one contract row."""
        return combine_contract.call(row, bench)


def choose_rows(
    m: int, width: int, plan: CombinePlan | None, generator: torch.Generator
) -> tuple[list[int], list[Workgroup] | None]:
    """Rows to run and the workgroups that handle them, ``None`` when all of them fit :data:`MOST_ELEMENTS`.

    Else the first and the last workgroup, those at each crossing of 2^31 and 2^32 bytes and elements, and random
    ones for as long as the budget lasts.
    """
    if plan is None or m * width <= MOST_ELEMENTS:
        return list(range(m)), None
    edges = [limit // width for limit in (1 << 30, 1 << 31, 1 << 32)]  # elements: 2^31 bytes is 2^30 elements
    wanted = [0, m - 1, *(row + step for row in edges for step in (0, 1) if row + step < m)]
    groups = {row // plan.rows for row in wanted}
    budget = MOST_ELEMENTS // (width * plan.rows)
    for row in _random_rows(m, generator):
        if len(groups) < budget:
            groups.add(row // plan.rows)
    ordered = sorted(groups)
    rows = [row for g in ordered for row in range(g * plan.rows, min((g + 1) * plan.rows, m))]
    return rows, [(g * plan.column_tiles + tile, 0, 0) for g in ordered for tile in range(plan.column_tiles)]


def _random_rows(m: int, generator: torch.Generator) -> list[int]:
    return [int(x) for x in torch.randint(0, m, (64,), generator=generator)]


def check_form(inputs: Inputs, r2: Any) -> JsonDict:
    """Shape, dtype and layout of the result, and that a caller's buffer is what came back."""
    wanted = (inputs.m, inputs.hc * inputs.hs)
    problems = []
    if tuple(r2.shape) != wanted or r2.dtype != BF16:
        problems.append(f"is {r2.dtype} {tuple(r2.shape)}, must be {BF16} {wanted}")
    if not r2.is_contiguous():
        problems.append(f"has strides {r2.stride()}, must be contiguous")
    if inputs.out is not None and r2.data_ptr() != inputs.out.data_ptr():
        problems.append("is not the caller's output buffer")
    return simple_check("r2", "form", problems, "shape, dtype and layout as promised")
