"""Matrix-instruction helpers that the K1 kernels trace inline.

Fragment order: lane ``l`` of a 16 x 32 operand holds row ``l % 16`` and the eight K columns from
``l // 16 * 8``. The weight is the first operand (``D = W * X^T``), so a lane of the result holds four
consecutive columns ``l // 16 * 4 ..`` of its own token row ``l % 16``: a row's scale is one register.

Import by name, as from :mod:`hcgr.kernels.device`.
"""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx
from flydsl._mlir.dialects import llvm
from flydsl.expr import rocdl

#: Columns and rows of a fragment, and the columns of one lane of it.
STEP, TILE, LANE = 32, 16, 8
#: bf16 of one fragment.
FRAGMENT = 512


def lds_layout(**fields: Any) -> Any:
    """The LDS struct of named ``fx.Array`` fields. FlyDSL reads a struct's annotations as objects, and in these
    modules they would be strings."""
    return fx.struct(type("Lds", (), {"__annotations__": fields}))


def uniform(value: Any) -> Any:
    """A 32-bit value that all lanes of a wave share, moved to a scalar register."""
    return fx.Int32(rocdl.readfirstlane(fx.Int32.ir_type, value.ir_value()))


def rsq(x: Any) -> Any:
    """1/sqrt(x) of an f32 in one instruction (``v_rsq_f32``, within 1 ulp)."""
    return fx.Float32(rocdl.rsq(fx.Float32.ir_type, x.ir_value()))


def packed_again(value: Any) -> Any:
    """Eight bf16, the same ones, of which the compiler knows no widened form.

    Where two uses that are far apart widen one vector, it would keep the eight f32 between them, in twice the
    registers. An empty inline assembly hides that both are the same.
    """
    words = value.bitcast(fx.Int32).ir_value()
    hidden = llvm.inline_asm(words.type, [words], "", "=v,0")
    return fx.Vector(hidden, (4,), fx.Int32).bitcast(fx.BFloat16)


def recomputed(value: Any) -> Any:
    """A 32-bit value, the same one, that the compiler must take for another at each turn of a loop.

    What is derived from it inside of the loop is derived there again, rather than kept in registers from before.
    """
    hidden = llvm.inline_asm(value.ir_value().type, [value.ir_value()], "", "=v,0", has_side_effects=True)
    return fx.Int32(hidden)


def mfma_step(weight: Any, rows: Any, total: Any, mfma_k: int) -> Any:
    """`total` plus a 16 x 16 x 32 product of two bf16 fragments: one instruction, or two of K = 16.

    The two take the low and the high four of each lane's eight columns, of both operands alike, so between
    them they cover all 32.
    """
    result_type = total.ir_value().type
    if mfma_k == 32:
        operands = [weight.ir_value(), rows.ir_value(), total.ir_value(), 0, 0, 0]
        return fx.Vector(rocdl.mfma_f32_16x16x32_bf16(result_type, operands), (4,), fx.Float32)
    for half in (0, 1):
        part = list(range(4 * half, 4 * half + 4))
        pair = [operand.shuffle(operand, part).bitcast(fx.Int16).ir_value() for operand in (weight, rows)]
        operands = [*pair, total.ir_value(), 0, 0, 0]
        total = fx.Vector(rocdl.mfma_f32_16x16x16bf16_1k(result_type, operands), (4,), fx.Float32)
    return total


def load_norm8(place: Any, is_f32: bool) -> list[Any]:
    """Eight norm weights as loaded: one 16-byte vector of bf16, or two of float32. See :func:`norm_gain8`."""
    if is_f32:
        return [fx.generic_load(place, count=4), fx.generic_load(place + 4, count=4)]
    return [fx.generic_load(place, count=8)]


def norm_gain8(loaded: list[Any]) -> Any:
    """``1 + Wnorm`` in f32 from what :func:`load_norm8` returned. Converting waits for the load, so it is apart."""
    wide = loaded[0].to(fx.Float32) if len(loaded) == 1 else loaded[0].shuffle(loaded[1], list(range(8)))
    return wide + 1.0


def sum_over_lane_groups(x: Any) -> Any:
    """The sum of an f32 over the four lanes that share ``lane % 16``; every one of them gets it."""
    x = x + x.shuffle_xor(16, 64)
    return x + x.shuffle_xor(32, 64)


def live_only(total: Any, column: Any, live: int) -> Any:
    """Four f32 of the columns from `column`, those from `live` on replaced by 0."""
    kept = [(column + e < live).select(total[e], fx.Float32(0.0)) for e in range(4)]
    return fx.Vector.from_elements(kept, fx.Float32)


def store_row(place: Any, totals: list[Any], group: Any, live: int, n_pad: int, packed: bool) -> None:
    """A lane's columns of one token row: four of every column tile, `place` being the first of them.

    Args:
        totals: Accumulators, one a live column tile.
        packed: Write bf16, with 0 from `live` to n_pad; else float32 partials of the live tiles.
    """
    for n in range(n_pad // TILE if packed else len(totals)):
        total = totals[n] if n < len(totals) else fx.full(4, 0.0, fx.Float32)
        if packed and n < len(totals) and (n + 1) * TILE > live:
            total = live_only(total, n * TILE + group * 4, live)
        fx.generic_store(place + n * TILE, total.to(fx.BFloat16) if packed else total)


def weight_stages(plan: Any, weight: Any, lds: Any, wave: Any, lane: Any) -> tuple[Any, Any, Any, Any]:
    """How a workgroup brings its weight steps into two LDS stages and multiplies by them.

    A step is ``plan.column_tiles`` fragments of 32 columns. Wave w fetches fragments w, w + waves, ...; slots
    past the last fragment repeat it, into LDS that nobody reads. `weight` is [n_pad, HC*HS] bf16.

    Returns:
        ``send(k, stage)``: start the LDS-DMA of the step at column `k` (plans with 16-byte ``dma_bytes``).
        ``load(k)``: the wave's fragments of that step in registers.
        ``keep(fragments, stage)``: those to LDS.
        ``multiply(total, rows, stage)``: accumulators [row tile][column tile], flat, plus the stage times one
        row fragment a row tile.
    """
    tiles, slots, waves, row_tiles = plan.column_tiles, plan.slots, plan.waves, plan.row_tiles
    width, stage_size, bits = plan.hc * plan.hs, plan.slots * plan.waves * FRAGMENT, plan.dma_bytes * 8
    mine = [wave + waves * j for j in range(slots)]
    last = fx.Int32(tiles - 1)
    fetched = [
        (tile < tiles).select(tile, last) if (j + 1) * waves > tiles else tile for j, tile in enumerate(mine)
    ]
    # A wave-uniform base and a 32-bit lane offset: one vector register for all fragments.
    sources = [weight + fx.Int64(tile) * (TILE * width) for tile in fetched]
    offset = fx.Int64(fx.Uint32(lane % TILE * width + lane // TILE * LANE))
    places = [lds + tile * FRAGMENT for tile in mine]
    unit = fx.make_layout(1, 1)
    atom = fx.make_copy_atom(rocdl.cdna4.GlobalLoadAsyncLDS(bits), bits) if bits else None

    def send(k: Any, stage: int) -> None:
        for source, place in zip(sources, places, strict=True):
            view = fx.make_view((source + k) + offset, unit)
            fx.copy(atom, view, fx.make_view(place + stage * stage_size, unit))

    def load(k: Any) -> list[Any]:
        return [fx.generic_load((source + k) + offset, count=LANE) for source in sources]

    def keep(fragments: list[Any], stage: int) -> None:
        for place, fragment in zip(places, fragments, strict=True):
            fx.generic_store(place + (stage * stage_size + lane * LANE), fragment)

    def multiply(total: list[Any], rows: list[Any], stage: int) -> list[Any]:
        total = list(total)
        for n in range(tiles):
            w = fx.generic_load(lds + (stage * stage_size + n * FRAGMENT + lane * LANE), count=LANE)
            for i in range(row_tiles):
                total[i * tiles + n] = mfma_step(w, rows[i], total[i * tiles + n], plan.mfma_k)
        return total

    return send, load, keep, multiply
