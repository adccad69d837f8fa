"""One call per stage for a runner: a kernel's tensors in, a `Comparison` out.

Every check is staged: it takes the intermediates that the kernel itself produced.  Rows are handled in
blocks, so huge or sparse tensors never exist in float64.  `rows` restricts a check to some token
rows and touches no other row of any tensor.  r2, xn and residual may be [M,HC,HS] or [M,HC*HS] with any row
stride.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from oracle import bounds
from oracle.bounds import Bounded, Weight
from oracle.compare import Comparison, Comparisons, Tally, compare

ELEMENTWISE_BLOCK = 1 << 17
"""Elements of a block in elementwise stages: a few float64 temporaries that stay in the L2 cache."""
GEMM_BLOCK = 1 << 20
"""Elements of the widest operand of a block in GEMM stages: enough rows to keep the float64 GEMM busy."""

Rows = Sequence[int] | Tensor | None
Select = Callable[[Tensor], Tensor]


def require(name: str, tensor: Tensor, *shapes: tuple[int, ...], dtypes: tuple[torch.dtype, ...] = ()) -> None:
    """Raise ValueError, naming what is accepted and what was given, unless the shape and dtype fit."""
    if tuple(tensor.shape) not in shapes:
        raise ValueError(f"{name}: shape must be {' or '.join(map(str, shapes))} (got {tuple(tensor.shape)})")
    if dtypes and tensor.dtype not in dtypes:
        raise ValueError(f"{name}: dtype must be {' or '.join(map(str, dtypes))} (got {tensor.dtype})")


def blocks(m: int, rows: Rows, per_row: int, block: int) -> Iterator[tuple[Sequence[int], Select]]:
    """Row blocks of about `block` elements: (row numbers, function that takes those rows of a tensor)."""
    step = max(1, block // max(1, per_row))
    if rows is None:
        for start in range(0, m, step):
            stop = min(m, start + step)
            yield range(start, stop), lambda t, a=start, b=stop: t[a:b]  # type: ignore[misc]
        return
    chosen = [int(row) for row in rows]
    wrong = [row for row in chosen if not 0 <= row < m]
    if wrong:
        raise ValueError(f"rows: must be in 0..{m - 1} (got {wrong[:4]})")
    for start in range(0, len(chosen), step):
        part = chosen[start : start + step]
        index = torch.tensor(part)
        yield part, lambda t, i=index: t.index_select(0, i)  # type: ignore[misc]


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run(
    name: str, out: Tensor, rows: Rows, per_row: int, block: int, bound: Callable[[Select], Bounded]
) -> Comparison:
    m = out.shape[0]
    count = m if rows is None else len(rows)
    tally = Tally(name, count * (out.numel() // m) if m else 0)
    # Elementwise blocks are too short to share: on a busy machine each operation's barrier costs more
    # than its work.
    with _threads(1 if block == ELEMENTWISE_BLOCK else torch.get_num_threads()):
        for ids, take in blocks(m, rows, per_row, block):
            expected = bound(take)
            tally.add(take(out).reshape(expected.want.shape), expected, ids)
        return tally.result()


def _wide(name: str, tensor: Tensor, hc: int, hs: int | None = None) -> tuple[int, int]:
    """(M, HS) of a residual-shaped tensor; raises ValueError unless it is [M,HC,HS] or [M,HC*HS]."""
    if tensor.dim() not in (2, 3) or tensor[0:1].numel() % hc:
        raise ValueError(f"{name}: shape must be [M,{hc},HS] or [M,{hc}*HS] (got {tuple(tensor.shape)})")
    m = tensor.shape[0]
    width = tensor.shape[1] if tensor.dim() == 2 else tensor.shape[1] * tensor.shape[2]
    size = hs if hs is not None else width // hc
    require(name, tensor, (m, hc, size), (m, hc * size))
    return m, size


def _split(tensor: Tensor, hc: int, hs: int) -> Tensor:
    return tensor.reshape(tensor.shape[0], hc, hs)


def check_combine(
    r2: Tensor, residual: Tensor, block_output: Tensor, injection: Tensor, hc: int, *, rows: Rows = None
) -> Comparison:
    """R2 against COMBINE of residual, block_output [M,HS] and injection [M,HC]."""
    m, hs = _wide("r2", r2, hc)
    _wide("residual", residual, hc, hs)
    require("block_output", block_output, (m, hs))
    require("injection", injection, (m, hc))
    return _run(
        "combine",
        r2,
        rows,
        hc * hs,
        ELEMENTWISE_BLOCK,
        lambda take: bounds.combine(take(residual), take(block_output), take(injection), hc),
    )


def check_rrms(rrms: Tensor, r2: Tensor, eps: float, *, exact_sum: bool = False, rows: Rows = None) -> Comparison:
    """rrms [M,HC] float32 against the kernel's own r2.  `exact_sum`: see `oracle.bounds.rrms`."""
    hc = rrms.shape[1]
    m, hs = _wide("r2", r2, hc)
    require("rrms", rrms, (m, hc), dtypes=(torch.float32,))
    return _run(
        "rrms",
        rrms,
        rows,
        hc * hs,
        ELEMENTWISE_BLOCK,
        lambda take: bounds.rrms(_split(take(r2), hc, hs), eps, exact_sum=exact_sum),
    )


def check_xn(xn: Tensor, r2: Tensor, rrms: Tensor, norm_weight: Tensor, *, rows: Rows = None) -> Comparison:
    """A stored bf16 xn (five-stage and decoupled paths) against the kernel's own r2 and rrms."""
    hc = rrms.shape[1]
    _, hs = _wide("xn", xn, hc)
    _wide("r2", r2, hc, hs)
    return _run(
        "xn",
        xn,
        rows,
        hc * hs,
        ELEMENTWISE_BLOCK,
        lambda take: bounds.norm(_split(take(r2), hc, hs), take(rrms), norm_weight),
    )


def check_folded_weight(folded: Tensor, weight: Tensor, norm_weight: Tensor, hc: int) -> Comparison:
    """W' [N,HC*HS] against ``(1 + Wnorm) W``."""
    require("folded", folded, tuple(weight.shape))
    return compare("folded_weight", folded, bounds.fold_weight(weight, norm_weight, hc))


def check_packed(
    packed: Tensor,
    r2: Tensor,
    rrms: Tensor | None,
    norm_weight: Tensor,
    weight: Tensor,
    *,
    hc: int,
    fold_w: bool,
    live: int | None = None,
    splits: int = 1,
    exact_sum: bool = False,
    eps: float | None = None,
    rows: Rows = None,
) -> Comparison:
    """packed [M,n_pad] against G1 and INJ over the merged weight [n_pad,K] (holding 1+Wnorm when `fold_w`).

    live        number of columns in use (r + HC, or r without inject rows).  The columns from there on must
                be zero in every row.  None: they follow the weight's rows, so NaN rows may be NaN there too.
    splits      number of float32 partials that a split-K path adds up
    exact_sum   every partial sum is exact (`oracle.exact`)
    rrms        None if the kernel keeps it to itself: it is then recomputed from r2 and `eps`, and its
                uncertainty is added
    """
    m, hs = _wide("r2", r2, hc)
    n_pad = weight.shape[0]
    require("packed", packed, (m, n_pad))
    require("weight", weight, (n_pad, hc * hs))
    if live is not None and not 0 <= live <= n_pad:
        raise ValueError(f"live: must be in 0..{n_pad} (got {live})")
    if rrms is not None:
        require("rrms", rrms, (m, hc))
    elif eps is None:
        raise ValueError("eps: must be given when rrms is None")
    operand = Weight(weight)

    def bound(take: Select) -> Bounded:
        r2_rows = _split(take(r2), hc, hs)
        rrms_rel: Tensor | None = None
        if rrms is not None:
            scale = take(rrms)
        else:
            assert eps is not None
            own = bounds.rrms(r2_rows, eps, exact_sum=exact_sum)
            scale, rrms_rel = own.want, bounds.relative(own)
        if fold_w:
            result = bounds.down_folded(r2_rows, scale, operand, splits=splits, exact_sum=exact_sum, rrms_rel=rrms_rel)
        else:
            result = bounds.down(
                r2_rows, scale, norm_weight, operand, splits=splits, exact_sum=exact_sum, rrms_rel=rrms_rel
            )
        if live is not None:
            result.want[:, live:] = 0.0
            result.delta[:, live:] = 0.0
        return result

    return _run("packed", packed, rows, hc * hs, GEMM_BLOCK, bound)


def check_h(h: Tensor, lora: Tensor, hc: int, *, rows: Rows = None) -> Comparison:
    """A stored bf16 h [M,r] against the kernel's own lora columns of packed."""
    require("lora", lora, tuple(h.shape))
    return _run("h", h, rows, h.shape[1], ELEMENTWISE_BLOCK, lambda take: bounds.silu(take(lora), hc))


def check_k1(
    r2: Tensor,
    rrms: Tensor | None,
    packed: Tensor,
    residual: Tensor,
    block_output: Tensor | None,
    injection: Tensor | None,
    norm_weight: Tensor,
    weight: Tensor,
    *,
    hc: int,
    eps: float,
    fold_w: bool,
    live: int | None = None,
    splits: int = 1,
    exact_sum: bool = False,
    rows: Rows = None,
) -> Comparisons:
    """Every output of K1, each on the kernel's own inputs to it: combine, rrms (when given), packed."""
    if (block_output is None) != (injection is None):
        raise ValueError("block_output and injection: give both (COMBINE) or neither (MIX only)")
    stages: dict[str, Comparison] = {}
    if block_output is not None and injection is not None:
        stages["combine"] = check_combine(r2, residual, block_output, injection, hc, rows=rows)
    if rrms is not None:
        stages["rrms"] = check_rrms(rrms, r2, eps, exact_sum=exact_sum, rows=rows)
    stages["packed"] = check_packed(
        packed,
        r2,
        rrms,
        norm_weight,
        weight,
        hc=hc,
        fold_w=fold_w,
        live=live,
        splits=splits,
        exact_sum=exact_sum,
        eps=eps,
        rows=rows,
    )
    return Comparisons(stages)


def check_k2(
    x: Tensor,
    lora: Tensor,
    r2: Tensor,
    rrms: Tensor,
    norm_weight: Tensor,
    w_up: Tensor,
    *,
    hc: int,
    h: Tensor | None = None,
    rows: Rows = None,
) -> Comparison:
    """x [M,HS] against K2 of the kernel's own lora columns [M,r], r2 and rrms.

    `h`: the stored bf16 h when the kernel reads one; it is checked by `check_h`, and lora is then not used.
    """
    m, hs = _wide("r2", r2, hc)
    r = w_up.shape[1]
    require("x", x, (m, hs))
    require("w_up", w_up, (hc * hs, r))
    require("lora", lora, (m, r))
    require("rrms", rrms, (m, hc))
    operand = Weight(w_up)

    def bound(take: Select) -> Bounded:
        spread: Tensor | None = None
        if h is None:
            silu = bounds.silu(take(lora), hc)
            operand_rows, spread = silu.stored(), silu.spread()
        else:
            operand_rows = take(h)
        return bounds.gate_mix(
            operand_rows, _split(take(r2), hc, hs), take(rrms), norm_weight, operand, h_spread=spread
        )

    return _run("x", x, rows, hc * hs, GEMM_BLOCK, bound)
