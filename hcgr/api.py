"""The public entry points of the two-stage Hyper-Connection gated residual op.

Each keeps the call sites of earlier public revisions working and stands on a ``torch.library`` operator
(:mod:`hcgr.ops`) with a fake kernel, so that ``torch.compile(fullgraph=True)`` traces it.

Tensors of a ROCm device run there, on gfx942 or gfx950. CPU tensors run only with
``FLYDSL_COMPILE_BACKEND=emulator`` (see :mod:`hcgr.dispatch`).
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from hcgr import contract, dispatch, entry
from hcgr import ops as _ops  # noqa: F401 - registers the operators
from hcgr import requirements as must
from hcgr.plan import choose


def flydsl_gr_two_stage_combine(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    hc_count: int,
    eps: float = 1e-6,
    stream: torch.cuda.Stream | None = None,
    *,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Add a pending block output to every residual stream: the COMBINE of a delayed residual write.

    ``iw = 2 * sigmoid(injection / HC)`` in float32, then ``r2[m, s*HS + c] = residual[m, s*HS + c] +
    block_output[m, c] * iw[m, s]``, rounded once to bf16, to nearest even.

    Args:
        residual: [M, HC*HS] bf16, stream-major (HS inner). HS is a multiple of 512. Rows are contiguous and
            16-byte aligned; any row stride that is a multiple of 8 elements is honoured, 0 (expanded) too.
        block_output: [M, HS] bf16, rows as for `residual`.
        injection: [M, HC] bf16 logits. The inner dimension is contiguous; any row stride is honoured, so that
            the view ``packed[:, r:r+HC]`` of a K1 output, of row stride n_pad, needs no copy.
        norm_weight: [HS] or [HC*HS], bf16 or float32, contiguous. Not read: COMBINE does not normalise; it is
            checked all the same.
        hc_count: HC, one of 2, 4, 8.
        eps: A positive normal float32. Not used here, checked like `norm_weight`.
        stream: Stream to launch on and allocate the result for; ``None`` is the current stream.
        out: Buffer for the result, contiguous [M, HC*HS] bf16, 16-byte aligned, on the device of `residual`
            and disjoint from every input: there is no in-place form. ``None`` allocates.

    Returns:
        r2, [M, HC*HS] bf16, contiguous; `out` itself if given. M = 0 gives an empty tensor, without a launch.

    Raises:
        NotImplementedError: if the device is neither gfx942 nor gfx950, or is the CPU without the emulator.
        ValueError: if an argument breaks the above, or tensors or stream are on different devices. The
            message names the argument, what was given and what is accepted; nothing was launched or written.
        TypeError: if an argument is no tensor or no stream.

    No entry point has a gradient: a backward pass that reaches a new result raises NotImplementedError.
    """
    tensors = {
        "residual": residual,
        "block_output": block_output,
        "injection": injection,
        "norm_weight": norm_weight,
    }
    entry.check({**tensors, **entry.given(out=out)}, stream, entry.mix_numbers(hc_count, eps, False))
    arguments: tuple[Any, ...] = (residual, block_output, injection, norm_weight, hc_count, eps)
    with dispatch.on_stream(stream):
        if out is None:
            r2: torch.Tensor = torch.ops.hcgr.combine(*arguments)
            entry.refuse_backward(r2)
            return r2
        torch.ops.hcgr.combine_into(*arguments, out=out)
        return out


def flydsl_gr_two_stage_combine_and_mix(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float = 1e-6,
    w_down_merged: torch.Tensor | None = None,
    fold_w: bool = False,
    stream: torch.cuda.Stream | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Add a pending block output to the residual streams, then mix them into the next block's input.

    COMBINE as :func:`flydsl_gr_two_stage_combine`; then, with ``rrms[s] = rsqrt(mean(r2[s]^2) + eps)`` and
    ``xn = r2 * rrms * (1 + norm_weight)``: ``lora = xn @ w_down.T``, ``inj_next = xn @ w_inject.T``,
    ``gate = sigmoid(SiLU(lora / HC) @ w_up.T)`` and ``x = mean over streams of gate * xn``.

    The sum of ``r2^2`` is float32. In a token and stream whose root mean square exceeds ``sqrt(3.4e38 / HS)``,
    3.6e17 for HS = 2560, it overflows: rrms is 0, the stream adds nothing to lora, inj_next and x, and where its
    products with the weight overflow too, these are NaN.

    Args:
        residual, block_output, injection: As for :func:`flydsl_gr_two_stage_combine`.
        norm_weight: [HS], shared by all streams, or [HC*HS]; bf16 or float32; contiguous, 16-byte aligned.
        w_down: [r, HC*HS] bf16; r is a multiple of 8 up to 512. Read only where `w_down_merged` is ``None``.
        w_up: [HC*HS, r] bf16, contiguous, 16-byte aligned.
        w_inject: [HC, HC*HS] bf16, read like `w_down`; ``None`` for a final mixer, without inj_next.
        hc_count: HC, one of 2, 4, 8.
        eps: Positive, and within the normal range of float32: the kernels would take less for 0.
        w_down_merged: [n_pad, HC*HS] bf16, contiguous, from :func:`~hcgr.merge_gr_two_stage_weight`: n_pad at
            least r (+ HC with `w_inject`) and a multiple of 16, or of 8 where the skinny path takes the call
            (`fold_w` and M of at most 8). ``None`` merges, and with `fold_w` folds, in this call, each time.
        fold_w: Whether the merged weight holds ``1 + norm_weight`` (:func:`~hcgr.fold_norm_weight`). It cannot
            be told from the weight: a wrong value gives wrong results.
        stream: Stream to launch on and allocate the results for; ``None`` is the current stream.

    Returns:
        r2 [M, HC*HS], x [M, HS], and inj_next [M, HC], all bf16; inj_next is a view of row stride n_pad, or
        ``None`` without `w_inject`. M = 0 gives empty tensors, without a launch.

    Raises:
        As :func:`flydsl_gr_two_stage_combine`.
    """
    tensors = {
        "residual": residual,
        "block_output": block_output,
        "injection": injection,
        "norm_weight": norm_weight,
        "w_down": w_down,
        "w_up": w_up,
        **entry.given(w_inject=w_inject, w_down_merged=w_down_merged),
    }
    entry.check(tensors, stream, entry.mix_numbers(hc_count, eps, fold_w))
    with dispatch.on_stream(stream):
        r2, x, packed = torch.ops.hcgr.combine_and_mix(
            residual,
            block_output,
            injection,
            norm_weight,
            w_down,
            w_up,
            w_inject,
            hc_count,
            eps,
            w_down_merged,
            fold_w,
        )
    inj_next = _inj_next(packed, w_down, w_inject, hc_count)
    entry.refuse_backward(r2, x, inj_next)
    return r2, x, inj_next


def _inj_next(
    packed: torch.Tensor, w_down: torch.Tensor, w_inject: torch.Tensor | None, hc_count: int
) -> torch.Tensor | None:
    if w_inject is None:
        return None
    return packed.narrow(1, w_down.shape[0], hc_count)


def flydsl_gr_two_stage_mix(
    residual: torch.Tensor,
    norm_weight: torch.Tensor,
    w_down: torch.Tensor,
    w_up: torch.Tensor,
    w_inject: torch.Tensor | None,
    hc_count: int,
    eps: float = 1e-6,
    w_down_merged: torch.Tensor | None = None,
    fold_w: bool = False,
    stream: torch.cuda.Stream | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """Mix the residual streams as they are: a model's first layer, and its final mixer.

    :func:`flydsl_gr_two_stage_combine_and_mix` without COMBINE, r2 being `residual`.

    Returns:
        `residual` itself, x [M, HS], and inj_next [M, HC] of row stride n_pad or ``None``.

    Raises:
        As :func:`flydsl_gr_two_stage_combine`.
    """
    tensors = {
        "residual": residual,
        "norm_weight": norm_weight,
        "w_down": w_down,
        "w_up": w_up,
        **entry.given(w_inject=w_inject, w_down_merged=w_down_merged),
    }
    entry.check(tensors, stream, entry.mix_numbers(hc_count, eps, fold_w))
    with dispatch.on_stream(stream):
        x, packed = torch.ops.hcgr.mix(
            residual, norm_weight, w_down, w_up, w_inject, hc_count, eps, w_down_merged, fold_w
        )
    inj_next = _inj_next(packed, w_down, w_inject, hc_count)
    entry.refuse_backward(x, inj_next)
    return residual, x, inj_next


def flydsl_k1_combine_norm_down(
    residual: torch.Tensor,
    block_output: torch.Tensor,
    injection: torch.Tensor,
    norm_weight: torch.Tensor,
    w_dn_merged: torch.Tensor,
    lowrank: int,
    hc_count: int,
    eps: float = 1e-6,
    r2_out: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    rrms_out: torch.Tensor | None = None,
    block_m: int | None = None,
    block_k: int | None = None,
    m_waves: int | None = None,
    n_waves: int | None = None,
    stages: int | None = None,
    split_k: int | Literal["auto"] = "auto",
    dn_block_n: int | None = None,
    dn_block_m: int | None = None,
    dn_m_waves: int | None = None,
    dn_n_waves: int | None = None,
    sk_block_m: int | None = None,
    fold_w: bool = False,
    gemm_pad: int | None = None,
    use_tuned: bool = True,
    stream: torch.cuda.Stream | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """K1 alone: COMBINE, norm, and the merged down and inject projection.

    Where the sum of squares overflows float32, rrms is 0: see :func:`flydsl_gr_two_stage_combine_and_mix`.

    Args:
        residual, block_output, injection, norm_weight, hc_count, eps, fold_w, stream: As for
            :func:`flydsl_gr_two_stage_combine_and_mix`.
        w_dn_merged: The merged weight, as its `w_down_merged`.
        lowrank: r; any that leaves room for the inject rows, or n_pad itself for a weight without them.
        r2_out: Buffer for r2, contiguous [M, HC*HS] bf16, 16-byte aligned, disjoint from all other tensors.
        out: Buffer for packed, [M, n_pad] bf16, likewise.
        rrms_out: Buffer for ``rrms``, [M, HC] float32, likewise; the only way to get it, for K2.
        block_m, dn_block_m, sk_block_m: Tile height, one of 16, 32, 64, 128: the last for split-K, the middle
            one for the decoupled path, the first where that is ``None``. The other one is ignored.
        stages: Depth of the decoupled path's pipeline, at least 2, as far as LDS and vmcnt allow; takes that
            path if `split_k` is "auto". Split-K pipelines are two deep.
        split_k: Parts of K: a divisor of HC, or HC times a divisor of HS/64. 1 is the decoupled path; "auto"
            leaves it to the tuned table and heuristics, to the skinny path for M of at most 8 with `fold_w`, and
            without it, for M of 256 and more, to the resident path, which moves least.
        gemm_pad: Rows to tile for, at least M. Outputs have M rows all the same.
        use_tuned: Whether the tuned table is consulted.
        block_k, m_waves, n_waves, dn_block_n, dn_m_waves, dn_n_waves: Shapes of earlier revisions' workgroups,
            positive integers. These kernels' workgroups have no such freedom, and ignore them.

    Returns:
        r2 [M, HC*HS] and packed [M, n_pad], bf16: lora before SiLU in columns 0..r-1, inj_next in r..r+HC-1,
        then zeros. M = 0 gives empty tensors, without a launch.

    Raises:
        As :func:`flydsl_gr_two_stage_combine`. ``ValueError`` naming `gemm_pad` if no tile height divides the
        rows of a tiled path.
    """
    tensors = {
        "residual": residual,
        "block_output": block_output,
        "injection": injection,
        "norm_weight": norm_weight,
        "w_dn_merged": w_dn_merged,
        **entry.given(r2_out=r2_out, out=out, rrms_out=rrms_out),
    }
    height_name, tile_rows = choose.tile_height(split_k, stages, block_m, dn_block_m, sk_block_m)
    request = choose.Request(split_k, stages, tile_rows, use_tuned)
    numbers = [
        *entry.mix_numbers(hc_count, eps, fold_w),
        must.is_bool("use_tuned", use_tuned),
        *entry.hints(
            lowrank=lowrank,
            gemm_pad=gemm_pad,
            block_m=block_m,
            block_k=block_k,
            m_waves=m_waves,
            n_waves=n_waves,
            dn_block_n=dn_block_n,
            dn_block_m=dn_block_m,
            dn_m_waves=dn_m_waves,
            dn_n_waves=dn_n_waves,
            sk_block_m=sk_block_m,
        ),
        *choose.request_problems(request, height_name),
    ]
    entry.check(tensors, stream, numbers)
    arguments: tuple[Any, ...] = (
        residual,
        block_output,
        injection,
        norm_weight,
        w_dn_merged,
        lowrank,
        hc_count,
        eps,
        fold_w,
        gemm_pad,
        0 if split_k == "auto" else split_k,
        stages,
        tile_rows,
        use_tuned,
    )
    with dispatch.on_stream(stream):
        if r2_out is None and out is None and rrms_out is None:
            r2, packed, _ = torch.ops.hcgr.k1(*arguments)
            entry.refuse_backward(r2, packed)
            return r2, packed
        ranks = [
            must.rank_is("residual", residual, 2, "[M, HC*HS]"),
            must.rank_is("w_dn_merged", w_dn_merged, 2, "[n_pad, HC*HS]"),
        ]
        contract.raise_first(contract.present(ranks))
        tokens = residual.shape[0]
        r2 = residual.new_empty(residual.shape) if r2_out is None else r2_out
        packed = residual.new_empty((tokens, w_dn_merged.shape[0])) if out is None else out
        if rrms_out is None:
            rrms_out = residual.new_empty((tokens, hc_count), dtype=torch.float32)
        torch.ops.hcgr.k1_into(*arguments, r2_out=r2, out=packed, rrms_out=rrms_out)
        return r2, packed


def flydsl_up_gate_mix_norm(
    lora: torch.Tensor,
    r2: torch.Tensor,
    rrms: torch.Tensor,
    norm_weight: torch.Tensor,
    w_up: torch.Tensor,
    hc_count: int,
    block_input: torch.Tensor | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    m_waves: int | None = None,
    n_waves: int | None = None,
    stream: torch.cuda.Stream | None = None,
    *,
    use_tuned: bool = True,
) -> torch.Tensor:
    """K2 alone: SiLU, the up projection, sigmoid, and the gated mean over the streams.

    Args:
        lora: [M, r] bf16 before division by HC and SiLU, as the view ``packed[:, :r]``: rows contiguous and
            16-byte aligned, any row stride that is a multiple of 8. M is one that a tile height divides: 16,
            32, 64 or 128.
        r2: [M, HC*HS] bf16, rows as for `lora`.
        rrms: [M, HC] float32, contiguous.
        norm_weight, w_up, hc_count, stream: As for :func:`flydsl_gr_two_stage_combine_and_mix`.
        block_input: Buffer for x, contiguous [M, HS] bf16, 16-byte aligned, disjoint from every input.
        block_m: Tile height; ``None`` leaves it to the tuned table and heuristics.
        block_n, m_waves, n_waves: Shapes of earlier revisions' workgroups, positive integers; ignored.
        use_tuned: Whether the tuned table is consulted.

    Returns:
        x [M, HS] bf16; `block_input` itself if given. M = 0 gives an empty tensor, without a launch.

    Raises:
        As :func:`flydsl_gr_two_stage_combine`.
    """
    tensors = {
        "lora": lora,
        "r2": r2,
        "rrms": rrms,
        "norm_weight": norm_weight,
        "w_up": w_up,
        **entry.given(block_input=block_input),
    }
    numbers = [
        must.one_of("hc_count", hc_count, contract.HC_COUNTS),
        must.is_bool("use_tuned", use_tuned),
        *entry.hints(block_m=block_m, block_n=block_n, m_waves=m_waves, n_waves=n_waves),
    ]
    entry.check(tensors, stream, numbers)
    arguments: tuple[Any, ...] = (lora, r2, rrms, norm_weight, w_up, hc_count, block_m, use_tuned)
    with dispatch.on_stream(stream):
        if block_input is None:
            x: torch.Tensor = torch.ops.hcgr.k2(*arguments)
            entry.refuse_backward(x)
            return x
        torch.ops.hcgr.k2_into(*arguments, block_input=block_input)
        return block_input
