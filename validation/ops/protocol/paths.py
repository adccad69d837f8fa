"""Each kernel path once, at a small shape, under every checker: no schedule may change a result, nothing is found.

K1's first token holds a NaN: its live columns must be NaN, its padding columns 0, and no other token may change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import oracle
from hcgr import arch as arch_table
from hcgr import dispatch
from hcgr.plan.combine import CombinePlan
from hcgr.plan.k1 import K1DecoupledPlan
from hcgr.plan.k1_resident import K1ResidentPlan
from hcgr.plan.skinny import SkinnyPlan
from oracle.exact import K1Case
from validation.emulator.streams import Stream
from validation.kit import comparison_of
from validation.ops.protocol.host import Call, Host, Shape, exact_case, hosting, op, run_plan
from validation.ops.protocol.split_k import ONE_TURN, SHAPE, TOKENS, fused_plan, split_k_plan
from validation.protocol import Trial

#: A stream of two waves in the norm kernel, whose sums meet in LDS.
TWO_WAVES = replace(SHAPE, hs=1024)


def _decoupled(arch: str) -> Any:
    entry = arch_table.get(arch)
    return K1DecoupledPlan(
        TWO_WAVES.hc,
        TWO_WAVES.hs,
        TWO_WAVES.n_pad,
        TWO_WAVES.live,
        stages=3,
        waves=2,
        mfma_k=entry.mfma_k,
        dma_bytes=max(entry.lds_dma_bytes),
    )


def _k1(host: Host, shape: Shape, tokens: int, fold: bool, *plans: Any) -> None:
    """Each plan on a stream of its own, all at once."""
    for plan in plans:
        case = _with_nan(exact_case(shape, tokens, len(host.expected), fold), shape)
        with host.current(Stream()):
            made = run_plan(case, plan, host.arch)
        host.expect(Call(type(plan).__name__, case, *made))


def _with_nan(case: K1Case, shape: Shape) -> K1Case:
    """``case`` with a NaN in the first column of its first token, and what is due then."""
    c = case.combine
    residual, r2, rrms, packed = (tensor.clone() for tensor in (c.residual, c.r2, case.rrms, case.packed))
    residual[0, 0] = math.nan
    r2.view(residual.shape)[0, 0] = math.nan
    rrms[0, 0] = math.nan
    packed[0, : shape.live] = math.nan
    return replace(case, combine=replace(c, residual=residual, r2=r2), rrms=rrms, packed=packed)


def skinny(trial: Trial) -> None:
    """Decode: several waves, column tiles and token groups, dead columns; both forms of publication."""
    with hosting(trial) as host:
        shape = Shape(hs=1024, n_pad=24, live=12)
        plan = SkinnyPlan(shape.hc, shape.hs, shape.n_pad, shape.live, 2, 8)
        _k1(host, shape, 3, True, plan, replace(plan, av=False))


def fused(trial: Trial) -> None:
    """The fused K1: all of K in a workgroup, a stream each, half a stream each with raw partials, and one turn each."""
    with hosting(trial) as host:
        _k1(host, SHAPE, TOKENS, True, *(fused_plan(host.arch, splits) for splits in (1, 2, 4, ONE_TURN)))


def split_k(trial: Trial) -> None:
    """Norm, split-K over two parts and over parts of one turn, reduce."""
    with hosting(trial) as host:
        _k1(host, SHAPE, TOKENS, False, *(split_k_plan(host.arch, splits) for splits in (2, ONE_TURN)))


def resident(trial: Trial) -> None:
    """R2 kept between norm and GEMM: all of K in a workgroup, and a stream each with half of the rows missing."""
    with hosting(trial) as host:
        plan = K1ResidentPlan(SHAPE.hc, SHAPE.hs, SHAPE.n_pad, SHAPE.live, waves=2)
        plan = replace(plan, mfma_k=arch_table.get(host.arch).mfma_k)
        _k1(host, SHAPE, TOKENS, False, plan, replace(plan, splits=2, row_tiles=2))


def decoupled(trial: Trial) -> None:
    """Norm of two waves a token, then a GEMM whose operands both arrive by loads to LDS, three stages deep."""
    with hosting(trial) as host:
        _k1(host, TWO_WAVES, TOKENS, True, _decoupled(host.arch))


def k2(trial: Trial) -> None:
    """K2's up-projection, gate and mix."""
    case = oracle.exact.k2_case(16, SHAPE.hc, SHAPE.hs, 32)
    arguments = (case.lora, case.r2.flatten(1), case.rrms, case.norm_weight, case.w_up, SHAPE.hc, None, False)

    def launch() -> Any:
        return op("direct").k2_op(*arguments)

    _one(trial, "x", case.x, launch)


def combine(trial: Trial) -> None:
    """COMBINE alone, several row tiles."""
    case = oracle.exact.combine_case(5, SHAPE.hc, SHAPE.hs)
    plan = CombinePlan(SHAPE.hc, SHAPE.hs, 2)

    def launch() -> Any:
        r2 = case.residual.new_empty(case.residual.shape)
        tensors = {
            "residual": case.residual,
            "block_output": case.block_output,
            "injection": case.injection,
            "r2": r2,
        }
        strides = (case.residual.stride(0), case.block_output.stride(0), case.injection.stride(0))
        dispatch.launch("hcgr.kernels.combine", plan, tensors, (5, *strides, plan.workgroups(5)))
        return r2

    _one(trial, "r2", case.r2.flatten(1), launch)


def _one(trial: Trial, name: str, due: Any, launch: Callable[[], Any]) -> None:
    """One launch on a stream; its output against what is due."""
    with hosting(trial) as host:
        with host.current(Stream()):
            got = launch()
        host.settle()
        trial.checks.append(comparison_of(name, "value", oracle.compare_exact(name, got, due)))
