"""Planted mistakes must fail, in every stage to which they apply."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import oracle
from oracle import guards
from tests.oracle.stages import PRODUCTION, SMALL, STAGES, case, step
from tests.oracle.twin import Fault, Variant

SEEDS = range(10)
FAULTS = [(name, fault) for name, stage in STAGES.items() for fault in stage.faults]


def shuffled(out: Tensor) -> Tensor:
    flat = out.flatten()
    return flat[torch.randperm(flat.numel(), generator=torch.Generator().manual_seed(1))].reshape(out.shape)


def neighbours_swapped(out: Tensor) -> Tensor:
    rolled = out.clone()
    rolled[..., :2] = out[..., [1, 0]]
    return rolled


def median_element(out: Tensor) -> int:
    """Position of the element of median magnitude among those that are not zero."""
    sizes = out.flatten().float().abs()
    candidates = (sizes > 0).nonzero().flatten()
    return int(candidates[sizes[candidates].argsort()[len(candidates) // 2]])


def with_element(out: Tensor, position: int, value: Tensor | float) -> Tensor:
    changed = out.clone()
    changed.view(-1)[position] = value
    return changed


def sign_flipped(out: Tensor) -> Tensor:
    position = median_element(out)
    return with_element(out, position, -out.flatten()[position])


def column_stale(out: Tensor) -> Tensor:
    """One column keeps what a previous run over other data left there: the value of the row before."""
    stale = out.clone()
    stale[..., -1 if bool((out[..., -1] != 0).any()) else 0] = out.roll(1, 0)[..., 0]
    return stale


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "zero": torch.zeros_like,
    "shuffled": shuffled,
    "neighbours_swapped": neighbours_swapped,
    "sign_flipped": sign_flipped,
    "one_zeroed": lambda out: with_element(out, median_element(out), 0.0),
    "column_stale": column_stale,
    "rows_rolled": lambda out: out.roll(1, 0),
    "all_nan": lambda out: torch.full_like(out, torch.nan),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("shape", [SMALL, PRODUCTION], ids=["small", "production"])
def test_changed_output_fails(name: str, change: str, shape: tuple[int, int, int, int, int]) -> None:
    stage = STAGES[name]
    for seed in SEEDS if shape is SMALL else range(1):
        c, v = case(shape, seed), Variant(seed, splits=1)
        out = stage.produce(c, v, Fault())
        assert stage.check(out, c, v).passed
        broken = stage.check(CHANGES[change](out), c, v)
        assert not broken.passed, f"seed {seed}: {broken}"


@pytest.mark.parametrize(("name", "fault"), FAULTS)
@pytest.mark.parametrize("shape", [SMALL, PRODUCTION], ids=["small", "production"])
def test_planted_fault_fails(name: str, fault: str, shape: tuple[int, int, int, int, int]) -> None:
    for seed in SEEDS if shape is SMALL else range(1):
        result = STAGES[name].run(case(shape, seed), Variant(seed, splits=1), Fault(**{fault: True}))
        assert not result.passed, f"seed {seed}: {result}"


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("direction", [1, -1])
def test_smallest_change_above_the_bound_fails(name: str, direction: int) -> None:
    """The first storage number outside the bound fails, alone and by index; the last one inside passes."""
    stage = STAGES[name]
    for seed in SEEDS:
        c, v = case(SMALL, seed), Variant(seed, splits=1)
        out = stage.produce(c, v, Fault())
        position = median_element(out)
        gross = stage.check(with_element(out, position, 1e30), c, v).worst
        assert gross is not None
        inside = out.flatten()[position : position + 1]
        outside = step(inside, direction)
        while abs(float(outside) - gross.want) <= gross.bound:
            inside, outside = outside, step(outside, direction)
        assert stage.check(with_element(out, position, inside), c, v).passed
        result = stage.check(with_element(out, position, outside), c, v)
        assert result.violations == 1
        assert result.worst is not None
        assert (
            result.worst.index
            == gross.index
            == tuple(int(i) for i in torch.unravel_index(torch.tensor(position), out.shape))
        )


@pytest.mark.parametrize("name", STAGES)
def test_moved_nan_and_inf_fail(name: str) -> None:
    """A NaN that is due but missing, one that is not due, and an Inf of either sign, all fail."""
    stage = STAGES[name]
    c, v = case(SMALL, 2, "special"), Variant(2)
    out = stage.produce(c, v, Fault())
    result = stage.check(out, c, v)
    assert result.passed, result
    due = out.flatten().isnan().nonzero().flatten()
    clean = (out.flatten().isfinite() & (out.flatten() != 0)).nonzero().flatten()
    assert len(due), "the special inputs must reach this stage's output"
    moved = {
        "missing": with_element(out, int(due[0]), 0.0),
        "inf for nan": with_element(out, int(due[0]), torch.inf),
        "nan": with_element(out, int(clean[0]), torch.nan),
        "inf": with_element(out, int(clean[0]), torch.inf),
        "-inf": with_element(out, int(clean[0]), -torch.inf),
    }
    for what, changed in moved.items():
        result = stage.check(changed, c, v)
        assert not result.passed, what
        assert result.nonfinite_mismatches == 1, what
        assert result.max_ratio == torch.inf, what


@pytest.mark.parametrize("name", STAGES)
def test_unwritten_column_is_found_twice(name: str) -> None:
    """Poison left in a column fails the comparison, and the write check names exactly that column."""
    stage = STAGES[name]
    c, v = case(SMALL, 4), Variant(4)
    out = stage.produce(c, v, Fault())
    buffer = guards.Guarded(tuple(out.shape), out.dtype)
    buffer.tensor[..., 1:] = out[..., 1:]
    missing = buffer.unwritten()
    assert len(missing) == out[..., 0].numel()
    assert set(missing[:, -1].tolist()) == {0}
    assert not stage.check(buffer.tensor, c, v).passed


def test_end_to_end_catches_structural_faults() -> None:
    """Wrong wiring fails end to end; faults below the propagated bound are the staged checks' business."""
    c, v = case(SMALL, 5), Variant(5)
    i = c.inp
    r = i.w_up.shape[1]
    x = STAGES["x"].produce(c, v, Fault())
    inject = c.packed[:, r : r + i.hc]

    def passed(r2: Tensor, x: Tensor, inject: Tensor) -> bool:
        return oracle.check_combine_and_mix(
            r2,
            x,
            inject,
            i.residual,
            i.block_output,
            i.injection,
            i.norm_weight,
            i.folded,
            i.w_up,
            hc=i.hc,
            eps=1e-6,
            fold_w=True,
            splits=c.splits,
        ).passed

    assert passed(c.r2, x, inject)
    assert not passed(c.r2, torch.zeros_like(x), inject)
    assert not passed(c.r2, x.roll(1, 0), inject)
    assert not passed(c.r2, shuffled(x), inject)
    assert not passed(c.r2, sign_flipped(x), inject)
    assert not passed(c.r2.roll(1, 1), x, inject)
    assert not passed(c.r2, x, c.packed[:, r - 1 : r - 1 + i.hc])


def test_columns_beyond_the_live_ones_must_be_zero() -> None:
    """Zero in every row; rows with NaN may follow the GEMM there only if the caller does not say `live`."""
    c, v = case(SMALL, 2, "special"), Variant(2)
    i, stage = c.inp, STAGES["packed_folded"]
    out = stage.produce(c, v, Fault())

    def strict(packed: Tensor) -> oracle.Comparison:
        return oracle.check_packed(
            packed, c.r2, c.rrms, i.norm_weight, i.folded, hc=i.hc, fold_w=True, live=c.live, splits=v.splits
        )

    assert out[:, c.live :].isnan().any()
    assert stage.check(out, c, v).passed
    assert not strict(out).passed
    out[:, c.live :] = 0.0
    assert strict(out).passed
    row = int(out[:, 0].isfinite().nonzero()[0])
    out[row, c.live] = 2.0**-133
    assert not strict(out).passed
    assert not stage.check(out, c, v).passed
