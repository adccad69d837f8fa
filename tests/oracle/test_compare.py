"""Comparison figures, row subsets, shape errors, guards."""

from __future__ import annotations

import json
import math

import pytest
import torch

import oracle
from oracle import bounds, guards
from oracle.bounds import Bounded
from oracle.compare import PERCENTILES, _percentiles, unravel
from oracle.inputs import make
from oracle.reference import combine, rrms

BF16, F64 = torch.bfloat16, torch.float64


def bound(want: list[float], delta: float, store: torch.dtype = torch.float32) -> Bounded:
    values = torch.tensor([want], dtype=F64)
    return Bounded(values, torch.full_like(values, delta), store)


def test_figures_by_hand() -> None:
    got = torch.tensor([[1.5, 2.0, -2.75, 4.0]])
    c = oracle.compare("t", got, bound([1.0, 2.0, -3.0, 4.0], 0.5))
    assert (c.passed, c.elements, c.violations, c.max_ratio) == (True, 4, 0, 1.0)
    assert c.bias == pytest.approx((1.0 + 0.5) / 4)
    assert c.shrink == pytest.approx((1.0 - 0.5) / 4)  # the third error is toward zero
    assert c.worst is not None
    assert (c.worst.index, c.worst.got, c.worst.want, c.worst.bound) == ((0, 0), 1.5, 1.0, 0.5)
    assert c.percentiles[50.0] == 0.0
    above = torch.tensor([[1.5000001, 2.0, -3.0, 4.0]])
    assert not oracle.compare("t", above, bound([1.0, 2.0, -3.0, 4.0], 0.5)).passed


def test_exactly_due_float32_and_undetermined() -> None:
    assert oracle.compare("t", torch.tensor([[0.0, 1.0]]), bound([0.0, 1.0], 0.0)).passed
    c = oracle.compare("t", torch.tensor([[1e-45, 1.0]]), bound([0.0, 1.0], 0.0))
    assert (c.violations, c.max_ratio) == (1, math.inf)
    c = oracle.compare("t", torch.tensor([[math.nan, 7.0]]), bound([0.0, 1.0], math.inf))
    assert (c.violations, c.undetermined, c.passed) == (0, 2, False)  # nothing was compared


def test_bf16_overflow_is_judged_at_the_boundary() -> None:
    top = float(torch.finfo(BF16).max)
    over = 2.0**128 - 2.0**119
    for want, got, passes in [
        (over, math.inf, True),
        (over, top, False),
        (top, math.inf, False),
        (top, top, True),
        (math.inf, math.inf, True),
        (math.inf, top, False),
        (math.inf, -math.inf, False),
    ]:
        c = oracle.compare("t", torch.tensor([[got, 0.0]], dtype=BF16), bound([want, 0.0], 0.0, BF16))
        assert c.passed is passes, (want, got)


def test_truncation_shows_as_shrink() -> None:
    want = torch.randn(1, 20000, dtype=F64, generator=torch.Generator().manual_seed(0))
    bits = want.float().view(torch.int32) & -65536
    c = oracle.compare("t", bits.view(torch.float32).to(BF16), Bounded(want, torch.zeros_like(want), BF16))
    assert not c.passed
    assert c.shrink < -0.9
    assert abs(c.bias) < 0.05


def test_empty_is_not_a_pass_and_json_is_plain() -> None:
    c = oracle.compare(
        "t",
        torch.zeros(0, 4, dtype=BF16),
        Bounded(torch.zeros(0, 4, dtype=F64), torch.zeros(0, 4, dtype=F64), BF16),
    )
    assert (c.passed, c.elements) == (False, 0)
    bad = oracle.compare("t", torch.tensor([[math.nan, 1.0]]), bound([0.0, 1.0], 0.1))
    data = json.loads(json.dumps(bad.to_dict(), allow_nan=False))
    assert data["passed"] is False
    assert data["max_ratio"] == "inf"
    assert data["worst"]["index"] == [0, 0]
    assert "FAIL" in str(bad)
    assert not oracle.Comparisons({}).passed
    assert oracle.Comparisons({"a": c, "b": bad}).first_failure is c


def test_rows_subset_touches_no_other_row_and_reports_full_indices() -> None:
    i = make(40, 4, 64, 8, 16, seed=2)
    r2 = combine(i.residual, i.block_output, i.injection, 4)
    broken = r2.clone()
    broken[17, 2, 5] = 1e6
    args = (i.residual, i.block_output, i.injection, 4)
    c = oracle.check_combine(broken, *args, rows=[3, 17, 39])
    assert c.elements == 3 * 4 * 64
    assert c.worst is not None
    assert c.worst.index == (17, 2, 5)
    assert oracle.check_combine(broken, *args, rows=torch.tensor([0, 16, 18])).passed
    with pytest.raises(ValueError, match=r"rows: must be in 0\.\.39 \(got \[40\]\)"):
        oracle.check_combine(r2, *args, rows=[40])


def test_strided_inputs_give_the_same_answer() -> None:
    i = make(6, 4, 64, 8, 16, seed=2)
    assert i.injection.stride(0) == 16
    r2 = combine(i.residual, i.block_output, i.injection, 4)
    wide = torch.zeros(6, 300, dtype=BF16)
    wide[:, :256] = i.residual
    flat = torch.zeros(6, 257, dtype=BF16)
    flat[:, :256] = r2.flatten(1)
    assert oracle.check_combine(flat[:, :256], wide[:, :256], i.block_output, i.injection.contiguous(), 4).passed


def test_many_blocks_give_the_figures_of_one() -> None:
    """1000 rows are several blocks: the maximum, its index and the counts do not depend on the split."""
    i = make(1000, 4, 64, 8, 16, seed=5)
    r2 = combine(i.residual, i.block_output, i.injection, 4)
    blocked = oracle.check_combine(r2, i.residual, i.block_output, i.injection, 4)
    whole = oracle.compare("combine", r2, bounds.combine(i.residual, i.block_output, i.injection, 4))
    assert (blocked.max_ratio, blocked.worst, blocked.percentiles) == (
        whole.max_ratio,
        whole.worst,
        whole.percentiles,
    )
    assert blocked.bias == pytest.approx(whole.bias, abs=1e-12)


def test_shape_and_dtype_errors_name_what_is_accepted() -> None:
    i = make(4, 4, 64, 8, 16)
    r2 = combine(i.residual, i.block_output, i.injection, 4)
    scale = rrms(r2, 1e-6)
    with pytest.raises(ValueError, match=r"block_output: shape must be \(4, 64\) \(got \(3, 64\)\)"):
        oracle.check_combine(r2, i.residual, i.block_output[:3], i.injection, 4)
    with pytest.raises(ValueError, match=r"rrms: dtype must be torch\.float32"):
        oracle.check_rrms(scale.double(), r2, 1e-6)
    with pytest.raises(TypeError, match=r"output must be torch\.bfloat16"):
        oracle.check_combine(r2.float(), i.residual, i.block_output, i.injection, 4)
    with pytest.raises(ValueError, match=r"live: must be in 0\.\.16 \(got 17\)"):
        oracle.check_packed(r2[:, 0, :16], r2, scale, i.norm_weight, i.merged, hc=4, fold_w=False, live=17)
    with pytest.raises(ValueError, match="eps: must be given when rrms is None"):
        oracle.check_packed(r2[:, 0, :16], r2, None, i.norm_weight, i.merged, hc=4, fold_w=False)
    with pytest.raises(ValueError, match=r"kind: must be one of normal, wide"):
        make(4, 4, 64, 8, 16, kind="odd")


def test_compare_exact() -> None:
    want = torch.tensor([[0.0, math.nan, math.inf, 1.0]])
    assert oracle.compare_exact("t", want.clone(), want).passed
    negative = torch.tensor([[-0.0, math.nan, math.inf, 1.0]])
    assert not oracle.compare_exact("t", negative, want).passed
    assert oracle.compare_exact("t", negative, want, zero_sign=False).passed
    c = oracle.compare_exact("t", torch.tensor([[0.0, 0.0, math.inf, 1.0000001]]), want)
    assert (c.violations, c.nonfinite_mismatches) == (2, 1)
    assert c.worst is not None
    assert c.worst.index == (0, 1)
    with pytest.raises(ValueError, match=r"output must be torch\.float32"):
        oracle.compare_exact("t", want.double(), want)


def test_twin_ratio() -> None:
    exact = torch.tensor([0.0, 0.0, math.nan])
    assert oracle.twin_ratio(torch.tensor([3.0, 4.0, 0.0]), torch.tensor([0.0, 2.5, 0.0]), exact) == 2.0
    assert oracle.twin_ratio(exact, exact, exact) == 1.0
    assert oracle.twin_ratio(exact + 1, exact, exact) == math.inf


@pytest.mark.parametrize("dtype", [BF16, torch.float32])
def test_guards(dtype: torch.dtype) -> None:
    g = guards.Guarded((3, 2, 5), dtype, row_stride=12)
    assert g.tensor.shape == (3, 2, 5)
    assert g.tensor.stride() == (12, 5, 1)
    assert len(g.unwritten()) == 30
    assert g.tensor.isnan().all()
    g.tensor.copy_(g.tensor * 1.0)  # arithmetic on poison is a quiet NaN: written, though NaN
    assert len(g.unwritten()) == 0
    assert g.breaches() == []
    size = g.tensor.element_size()
    base = g.tensor.storage_offset()
    storage = g.tensor.as_strided((base + 3 * 12 + 8,), (1,), 0)
    for where, region, offset in [
        (base - 1, "before", -1),
        (base + 11, "between the rows of", 11),
        (base + 34, "behind", 34),
    ]:
        kept = storage[where].clone()
        storage[where] = 0.0
        (breach,) = g.breaches()
        assert (breach.region, breach.changed, breach.first_offset) == (region, size, offset * size)
        assert region in str(breach)
        storage[where] = kept
    assert g.breaches() == []


def test_guard_errors() -> None:
    with pytest.raises(ValueError, match=r"row_stride: must be at least the row's 10 elements \(got 9\)"):
        guards.Guarded((3, 10), BF16, row_stride=9)
    with pytest.raises(TypeError, match="dtype must be one of"):
        guards.Guarded((3, 10), F64)
    with pytest.raises(TypeError, match="poison: dtype must be one of"):
        guards.poison(torch.zeros(2, dtype=F64))


def test_unravel_is_torchs() -> None:
    for shape in ((7,), (3, 5), (2, 3, 4)):
        for position in range(torch.Size(shape).numel()):
            assert unravel(position, shape) == tuple(int(i) for i in torch.unravel_index(torch.tensor(position), shape))


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 65_537])
def test_percentiles_are_elements_of_the_sample(count: int) -> None:
    """Also beside an Inf, next to which an interpolation would be NaN."""
    sample = torch.rand(count, generator=torch.Generator().manual_seed(count))
    sample[count // 2 :: 97] = torch.inf
    at = torch.tensor(PERCENTILES, dtype=torch.float64) / 100
    wanted = torch.quantile(sample.double(), at, interpolation="lower").tolist()
    assert _percentiles(sample) == wanted
    assert _percentiles(torch.zeros(0)) == [0.0] * len(PERCENTILES)
