"""The reference: hand-computed values, plain-Python evaluation, float64 against float32, special values."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import oracle
from oracle import bounds, reference
from oracle.bounds import Weight
from oracle.inputs import make

BF16, F32, F64 = torch.bfloat16, torch.float32, torch.float64


def bf16(*values: float) -> Tensor:
    return torch.tensor([list(values)], dtype=BF16)


def test_combine_by_hand() -> None:
    """HC=2: injection 2 ln 3 gives sigmoid(ln 3) = 3/4, iw = 3/2; injection 0 gives iw = 1."""
    injection = torch.tensor([[2 * math.log(3.0), 0.0]], dtype=F64)
    iw = reference.injection_weight(injection, 2, dtype=F64)
    assert iw[0].tolist() == pytest.approx([1.5, 1.0], rel=1e-15)
    r2 = reference.combine(bf16(1, 2, 3, 4), bf16(2, -4), injection, 2)
    assert r2.tolist() == [[[4.0, -4.0], [5.0, 0.0]]]


def test_rrms_and_norm_by_hand() -> None:
    r2 = torch.tensor([[[1.0, 7.0], [0.0, 0.0]]], dtype=BF16)  # mean square 25 -> rrms 1/5; 0 + eps
    rrms = reference.rrms(r2, 0.25)
    assert rrms.dtype == F32
    assert rrms[0].tolist() == pytest.approx([25.25**-0.5, 2.0], rel=2.0**-23)
    assert float(reference.rrms(r2, 0.0)[0, 0]) == pytest.approx(0.2, rel=2.0**-23)
    xn = reference.norm(r2, torch.tensor([[0.25, 2.0]]), torch.tensor([1.0, -0.5], dtype=BF16))
    assert xn.tolist() == [[[0.5, 0.875], [0.0, 0.0]]]


def test_down_by_hand() -> None:
    r2 = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], dtype=BF16)
    weight = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4], dtype=BF16)
    # 0.5 (1 + 4) + 2 (9 + 16), 2 * 4, 0
    assert reference.down_folded(r2, torch.tensor([[0.5, 2.0]]), weight).tolist() == [[52.5, 8.0, 0.0]]
    assert reference.down(r2, weight).tolist() == [[30.0, 4.0, 0.0]]


def test_silu_gate_and_mix_by_hand() -> None:
    packed = torch.tensor([[4 * math.log(3.0)]], dtype=F64)
    assert reference.silu(packed, 4, dtype=F64, store=False).item() == pytest.approx(0.75 * math.log(3.0), rel=1e-15)
    gate = reference.up_gate(
        torch.tensor([[1.0]], dtype=F64),
        torch.tensor([[math.log(3.0)], [-math.log(3.0)]], dtype=F64),
        2,
        dtype=F64,
    )
    assert gate.flatten().tolist() == pytest.approx([0.75, 0.25], rel=1e-15)
    assert reference.mix(
        gate, torch.tensor([[[2.0], [8.0]]], dtype=F64), dtype=F64, store=False
    ).item() == pytest.approx(1.75, rel=1e-15)


def test_merge_and_fold() -> None:
    merged = reference.merge_weight(bf16(1, 2), bf16(3, 4), 4)
    assert merged.tolist() == [[1.0, 2.0], [3.0, 4.0], [0.0, 0.0], [0.0, 0.0]]
    assert reference.merge_weight(bf16(1, 2), None, 1).tolist() == [[1.0, 2.0]]
    with pytest.raises(ValueError, match=r"n_pad: must be at least the 2 rows .* \(got 1\)"):
        reference.merge_weight(bf16(1, 2), bf16(3, 4), 1)
    folded = reference.fold_weight(merged, torch.tensor([0.5], dtype=BF16), 2)
    assert folded.tolist() == [[1.5, 3.0], [4.5, 6.0], [0.0, 0.0], [0.0, 0.0]]
    assert oracle.check_folded_weight(folded, merged, torch.tensor([0.5], dtype=BF16), 2).passed
    assert not oracle.check_folded_weight(merged, merged, torch.tensor([0.5], dtype=BF16), 2).passed


def plain_op(
    residual: list[list[float]],
    y: list[float],
    inj: list[float],
    wn: list[float],
    w: list[list[float]],
    up: list[list[float]],
    hc: int,
    eps: float,
) -> tuple[list[float], list[float]]:
    """The whole op for one token in plain Python, no intermediate rounding: (packed, x)."""
    hs = len(y)
    r2 = [[residual[s][c] + y[c] * 2 / (1 + math.exp(-inj[s] / hc)) for c in range(hs)] for s in range(hc)]
    xn = []
    for s in range(hc):
        scale = 1 / math.sqrt(math.fsum(v * v for v in r2[s]) / hs + eps)
        xn.append([r2[s][c] * scale * (1 + wn[c]) for c in range(hs)])
    flat = [v for row in xn for v in row]
    packed = [math.fsum(a * b for a, b in zip(flat, row)) for row in w]
    h = [p / hc / (1 + math.exp(-p / hc)) for p in packed[: len(up[0])]]
    gate = [1 / (1 + math.exp(-math.fsum(a * b for a, b in zip(h, row)))) for row in up]
    x = [math.fsum(gate[s * hs + c] * xn[s][c] for s in range(hc)) / hc for c in range(hs)]
    return packed, x


@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize("full_width", [False, True])
def test_whole_op_in_float64_against_plain_python(hc: int, full_width: bool) -> None:
    i = make(2, hc, 12, 5, 16, seed=hc, full_width_norm=full_width, norm_dtype=F32)
    if full_width:
        i.norm_weight.copy_(i.norm_weight[:12].repeat(hc))  # plain_op takes one weight for all streams
    d = {name: value.to(F64) for name, value in vars(i).items() if isinstance(value, Tensor)}
    out = reference.combine_and_mix(
        d["residual"],
        d["block_output"],
        d["injection"],
        d["norm_weight"],
        d["merged"],
        d["w_up"],
        hc,
        eps=1e-3,
        dtype=F64,
        store=False,
    )
    for m in range(2):
        packed, x = plain_op(
            d["residual"][m].view(hc, -1).tolist(),
            d["block_output"][m].tolist(),
            d["injection"][m].tolist(),
            d["norm_weight"][:12].tolist(),
            d["merged"].tolist(),
            d["w_up"].tolist(),
            hc,
            1e-3,
        )
        assert out.x[m].tolist() == pytest.approx(x, rel=1e-12, abs=1e-13)
        assert out.inj_next is not None
        assert out.inj_next[m].tolist() == pytest.approx(packed[5 : 5 + hc], rel=1e-12, abs=1e-13)


def test_folded_equals_unfolded_without_rounding() -> None:
    i = make(3, 4, 40, 8, 16, seed=1)
    r2, rrms = torch.randn(3, 4, 40, dtype=F64), torch.rand(3, 4, dtype=F64)
    folded = reference.fold_weight(i.merged, i.norm_weight, 4, dtype=F64, store=False)
    xn = reference.norm(r2, rrms, i.norm_weight, dtype=F64, store=False)
    torch.testing.assert_close(
        reference.down_folded(r2, rrms, folded, dtype=F64, store=False),
        reference.down(xn, i.merged, dtype=F64, store=False),
        rtol=1e-12,
        atol=1e-13,
    )


def test_float64_agrees_with_the_bounds_centres_and_float32_stays_inside() -> None:
    """Each stage: the formula in float64 is the bound's centre, and in float32 it stays inside the bound."""
    for kind in ("normal", "wide", "large_mean", "zero_rows"):
        i = make(6, 4, 80, 16, 32, kind=kind, seed=3)
        hc, wn = 4, i.norm_weight
        r2 = reference.combine(i.residual, i.block_output, i.injection, hc)
        rrms = reference.rrms(r2, 1e-6)
        xn = reference.norm(r2, rrms, wn)
        packed = reference.down_folded(r2, rrms, i.folded)
        h = reference.silu(packed[:, :16], hc)
        args = (i.residual, i.block_output, i.injection, hc)
        k2 = (h, r2, rrms, wn)

        def x(
            dtype: torch.dtype,
            h: Tensor = h,
            r2: Tensor = r2,
            rrms: Tensor = rrms,
            wn: Tensor = wn,
            up: Tensor = i.w_up,
        ) -> Tensor:
            gate = reference.up_gate(h, up, 4, dtype=dtype)
            return reference.mix(gate, reference.norm(r2, rrms, wn, dtype=dtype, store=False), dtype=dtype, store=False)

        stages = {
            "combine": (bounds.combine(*args), lambda d, a=args: reference.combine(*a, dtype=d, store=False)),
            "rrms": (bounds.rrms(r2, 1e-6), lambda d, a=r2: reference.rrms(a, 1e-6, dtype=d)),
            "xn": (
                bounds.norm(r2, rrms, wn),
                lambda d, a=(r2, rrms, wn): reference.norm(*a, dtype=d, store=False),
            ),
            "folded": (
                bounds.down_folded(r2, rrms, Weight(i.folded)),
                lambda d, a=(r2, rrms, i.folded): reference.down_folded(*a, dtype=d, store=False),
            ),
            "unfolded": (
                bounds.down(r2, rrms, wn, Weight(i.merged)),
                lambda d, a=(xn, i.merged): reference.down(*a, dtype=d, store=False),
            ),
            "h": (
                bounds.silu(packed[:, :16], hc),
                lambda d, a=packed[:, :16]: reference.silu(a, 4, dtype=d, store=False),
            ),
            "x": (bounds.gate_mix(*k2, Weight(i.w_up)), x),
        }
        for name, (bound, formula) in stages.items():
            exact, single = formula(F64), formula(F32).to(F64)
            slack = 2.0**-40 * bound.want.abs().amax()
            assert ((exact - bound.want).abs() <= slack.clamp_min(1e-300) + bound.delta * 2.0**-10).all(), name
            assert ((single - bound.want).abs() <= bound.delta).all(), (kind, name)


def test_extreme_values() -> None:
    inf, nan = math.inf, math.nan
    top = float(torch.finfo(BF16).max)
    r2 = torch.tensor([[[nan, 1.0], [inf, 1.0], [0.0, 0.0], [top, top]]], dtype=BF16)
    got = reference.rrms(r2, 0.0)[0]
    assert math.isnan(got[0])
    assert got[1:].tolist() == [0.0, inf, 0.0]  # the last: the sum of squares overflows float32
    assert oracle.check_rrms(got.unsqueeze(0), r2, 0.0).passed
    assert not oracle.check_rrms(torch.zeros(1, 4), r2, 0.0).passed
    # -Inf through silu is -Inf * 0: NaN, as x / (1 + exp(-x)) gives too
    h = reference.silu(bf16(inf, -inf, nan, -0.0, -1000.0), 4)[0]
    assert h[0] == inf
    assert h[1:3].isnan().all()
    assert h[3:].tolist() == [0.0, 0.0]
    assert oracle.check_h(h.unsqueeze(0), bf16(inf, -inf, nan, -0.0, -1000.0), 4).passed


def test_overflow_that_order_decides_is_left_open_and_counted() -> None:
    """R + y iw with a product past float32: fused it is finite, separately Inf.  Both pass."""
    top = float(torch.finfo(BF16).max)
    args = (bf16(-top, top), bf16(top), torch.full((1, 2), 1e4, dtype=BF16), 2)  # iw = 2
    for first in (top, math.inf):
        result = oracle.check_combine(torch.tensor([[[first], [math.inf]]], dtype=BF16), *args)
        assert result.passed is (result.violations == 0 and result.undetermined < result.elements)
        assert (result.violations, result.undetermined) == (0, 1)
    assert not oracle.check_combine(torch.tensor([[[top], [top]]], dtype=BF16), *args).passed


def test_mix_only_and_argument_errors() -> None:
    i = make(2, 4, 16, 4, 8, seed=0)
    out = reference.mix_only(i.residual, i.norm_weight, i.merged, i.w_up, 4)
    assert torch.equal(out.r2, i.residual.view(2, 4, 16))
    assert oracle.check_mix(out.x, out.inj_next, i.residual, i.norm_weight, i.merged, i.w_up, hc=4).passed
    assert reference.mix_only(i.residual, i.norm_weight, i.merged, i.w_up, 4, has_inject=False).inj_next is None
    with pytest.raises(ValueError, match="give both"):
        reference.k1(i.residual, i.block_output, None, i.norm_weight, i.merged, 4)
    with pytest.raises(ValueError, match=r"norm_weight: must have HS=16 or HC\*HS=64 elements \(got 5\)"):
        reference.norm_scale(torch.zeros(5), 4, 16)
