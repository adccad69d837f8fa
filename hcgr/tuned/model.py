"""Predicted times of K1 and K2 plans, from public figures of a part. A model, not a measurement.

A launch takes as long as the slowest of these, each at its peak rate: HBM traffic; traffic through L2; and, for
the busiest compute unit, its share of L2 traffic, its matrix and vector instructions, and its LDS reads.
Instructions run at the share of SIMDs that resident waves reach. Launch overhead and latency are left out, as no
public figure exists; so no candidate may leave more SIMDs idle than the heuristic does, and ties go to that.

Rates besides those of :mod:`hcgr.arch` are from the AMD CDNA 3 white paper ("Cache and memory"), and taken for
CDNA 4 too: an XCD's L2 delivers 16 channels x 128 bytes a clock, a CU's vector L1 128 bytes a clock, LDS 128
bytes a clock. A CU's four SIMDs execute a vector instruction of 64 lanes in four clocks each, transcendentals at
a quarter of that rate (AMD GCN architecture white paper).

``python -m hcgr.tuned.model --arch gfx950`` writes the sections of one architecture; see ``--help``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hcgr import arch as arch_table
from hcgr.arch import Arch, Part
from hcgr.plan import choose, k1_limits
from hcgr.plan.k1 import FRAGMENT_BYTES, STEP, TILE, K1DecoupledPlan, K1FusedPlan, K1SplitKPlan
from hcgr.plan.k1_limits import FUSED_TILES, K1Plan
from hcgr.plan.k1_resident import K1ResidentPlan
from hcgr.plan.k2 import BLOCK_ROWS, WAVE_CHUNK, K2Plan
from hcgr.tuned import table
from hcgr.tuned.tuner import Candidate, Evaluation, Job, export, tune

#: Bytes a clock: an XCD's L2, a CU's vector L1, a CU's LDS.
L2_BYTES, L1_BYTES, LDS_BYTES = 16 * 128, 128, 128
#: Lanes of vector instructions a clock and CU, and SIMDs of a CU.
VECTOR_LANES, SIMDS = 64, 4
#: Vector instructions an element, transcendentals counted as four: COMBINE and its square (two widenings, fma,
#: rounding, widening, fma); sigma (multiply, exp2, add, rcp); SiLU (widening, quotient, sigma, product, rounding);
#: a gated element (sigma, widening, rrms, fma); an element of xn (widening, two products, rounding).
COMBINE_OPS, SIGMOID_OPS, NORM_OPS = 6, 10, 4
SILU_OPS, GATE_OPS = SIGMOID_OPS + 4, SIGMOID_OPS + 3
#: Registers of a K2 wave beside weights and sums; see hcgr.plan.k2.MAX_HELD.
K2_BASE_VGPRS = 105
#: The shape that the table is for.
HC, HS, RANK = 4, 2560, 320
LIVE = RANK + HC
#: n_pad of the sections without one in their name.
GENERAL_N_PAD = 384

_POWERS = tuple(1 << n for n in range(6, 17))
#: Token counts of the sections of each architecture.
SECTIONS: dict[str, dict[str, tuple[int, ...]]] = {
    "gfx950": {
        "k1": _POWERS,
        "k1_n336": _POWERS,
        "up_gate_mix": tuple(n for n in _POWERS if n <= 8192),
        "up_gate_mix_n336": (64,),
    },
    "gfx942": {"k1": (2048, 4096, 8192)},
}


@dataclass(frozen=True)
class Work:
    """What one launch does.

    Attributes:
        workgroups: Workgroups.
        hbm_bytes: Bytes that HBM must move.
        l2_bytes: Bytes that one workgroup asks L2 for.
        mfma_flops: Operations of one workgroup's matrix instructions, padding included.
        lds_bytes: Bytes that one workgroup reads from LDS.
        vector_ops: Vector instructions of one workgroup, counted in lanes.
        waves: Waves of a workgroup.
        resident: Workgroups that fit on a CU at once.
    """

    workgroups: int
    hbm_bytes: float
    l2_bytes: float
    mfma_flops: float = 0.0
    lds_bytes: float = 0.0
    vector_ops: float = 0.0
    waves: int = SIMDS
    resident: int = 1


def resident(waves: int, vgprs: int, lds_bytes: int, arch: Arch) -> int:
    """Workgroups that fit on a CU at once, at least 1."""
    by_registers = arch.waves_per_simd(vgprs) * SIMDS // waves
    return max(1, min(by_registers, arch.lds_bytes // max(lds_bytes, 1)))


def launch_seconds(work: Work, arch: Arch, part: Part) -> float:
    """Predicted time of one launch.

    Raises:
        ValueError: if a figure of `part` has no public source.
    """
    if part.hbm_bytes_per_s is None or part.clock_hz is None or part.xcds is None:
        raise ValueError(f"part must have a public bandwidth, clock and XCD count, got {part}")
    busiest = -(-work.workgroups // part.cus)
    rate = part.clock_hz * min(1.0, min(busiest, work.resident) * work.waves / SIMDS)
    return max(
        work.hbm_bytes / part.hbm_bytes_per_s,
        work.workgroups * work.l2_bytes / (L2_BYTES * part.xcds * part.clock_hz),
        busiest * work.l2_bytes / (L1_BYTES * part.clock_hz),
        busiest * work.mfma_flops / (arch.mfma_flops_per_clock_per_cu * rate),
        busiest * work.vector_ops / (VECTOR_LANES * rate),
        busiest * work.lds_bytes / (LDS_BYTES * part.clock_hz),
    )


def _row_bytes(hc: int, hs: int) -> tuple[int, int]:
    """Bytes of one token's residual and of its block output."""
    return 2 * hc * hs, 2 * hs


def _result_bytes(plan: K1FusedPlan | K1ResidentPlan, tokens: int) -> int:
    """Bytes of the partials, or of packed where a workgroup writes that itself."""
    return tokens * plan.partial_columns * plan.splits * 4 if plan.splits > 1 else tokens * plan.n_pad * 2


def _gemm_work(plan: K1FusedPlan, tokens: int, read: int, written: int, arch: Arch) -> Work:
    """The one-pass GEMM over `read` residual bytes a token, all parts of K together."""
    steps = plan.hc * plan.hs // plan.splits // STEP
    weight = 2 * plan.hc * plan.hs * TILE * plan.column_tiles
    return Work(
        plan.workgroups(tokens),
        tokens * (read + written) + weight + _result_bytes(plan, tokens),
        plan.rows * (read + written) / plan.splits + weight / plan.splits,
        2.0 * plan.rows * TILE * plan.column_tiles * steps * STEP,
        plan.waves * plan.column_tiles * steps * FRAGMENT_BYTES,
        COMBINE_OPS * plan.rows * steps * STEP,
        plan.waves,
        resident(plan.waves, k1_limits.working_vgprs(plan), plan.lds_bytes, arch),
    )


def _norm_work(hc: int, hs: int, tokens: int) -> Work:
    residual, block_output = _row_bytes(hc, hs)
    row = 2 * residual + block_output
    return Work(tokens, tokens * row, row, vector_ops=COMBINE_OPS * hc * hs)


def _decoupled_work(plan: K1DecoupledPlan, tokens: int, arch: Arch) -> Work:
    steps = plan.hc * plan.hs // STEP
    residual, _ = _row_bytes(plan.hc, plan.hs)
    weight = 2 * plan.hc * plan.hs * TILE * plan.column_tiles
    fragments = plan.waves * (plan.row_tiles + plan.column_tiles)
    return Work(
        plan.workgroups(tokens),
        tokens * (residual + 2 * plan.n_pad) + weight * plan.column_groups,
        plan.rows * residual + weight,
        2.0 * plan.rows * TILE * plan.column_tiles * steps * STEP,
        fragments * steps * FRAGMENT_BYTES,
        waves=plan.waves,
        resident=resident(plan.waves, plan.accumulator_vgprs + k1_limits.BASE_VGPRS, plan.lds_bytes, arch),
    )


def _resident_work(plan: K1ResidentPlan, tokens: int, arch: Arch) -> Work:
    """The one-pass GEMM of an unfolded weight: every wave reads all rows' operands from LDS."""
    residual, block_output = _row_bytes(plan.hc, plan.hs)
    weight = 2 * plan.hc * plan.hs * TILE * plan.column_tiles
    elements = plan.rows * plan.hs * plan.streams
    return Work(
        plan.workgroups(tokens),
        tokens * (2 * residual + block_output) + weight + _result_bytes(plan, tokens),
        plan.rows * (2 * residual / plan.splits + block_output * plan.streams) + weight / plan.splits,
        2.0 * TILE * plan.column_tiles * elements,
        2 * (plan.waves + 1) * elements,
        (COMBINE_OPS + NORM_OPS) * elements,
        plan.waves,
        resident(plan.waves, k1_limits.resident_vgprs(plan), plan.lds_bytes, arch),
    )


def k1_works(plan: K1Plan, tokens: int, arch: Arch) -> list[Work]:
    """The launches of a K1 plan for a call with COMBINE."""
    residual, block_output = _row_bytes(plan.hc, plan.hs)
    if isinstance(plan, K1DecoupledPlan):
        return [_norm_work(plan.hc, plan.hs, tokens), _decoupled_work(plan, tokens, arch)]
    if isinstance(plan, K1ResidentPlan):
        works = [_resident_work(plan, tokens, arch)]
    elif isinstance(plan, K1SplitKPlan):
        works = [_norm_work(plan.hc, plan.hs, tokens), _gemm_work(plan.tile, tokens, residual, 0, arch)]
    else:
        works = [_gemm_work(plan, tokens, residual + block_output, residual, arch)]
    last = k1_limits.reduce_plan(plan)
    if last is not None:
        moved = tokens * (last.partial_columns * last.splits * 4 + last.n_pad * 2)
        works.append(Work(last.workgroups(tokens), moved, moved / last.workgroups(tokens)))
    return works


def k2_work(plan: K2Plan, tokens: int, n_pad: int, arch: Arch) -> Work:
    """The launch of a K2 plan."""
    residual, block_output = _row_bytes(plan.hc, plan.hs)
    weight = 2 * plan.hc * plan.hs * plan.rank
    columns = plan.block_columns * plan.passes
    row = 2 * columns * (plan.hc + 1) + 2 * plan.rank
    tiles = plan.hc * columns // TILE
    reads = plan.block_rows * plan.padded_rank * 2 * (columns // WAVE_CHUNK) * plan.hc
    return Work(
        plan.workgroups(tokens),
        tokens * (residual + block_output + 2 * n_pad) + weight,
        plan.block_rows * row + 2 * plan.hc * columns * plan.rank,
        2.0 * plan.block_rows * TILE * tiles * plan.padded_rank,
        reads + (plan.stream_waves - 1) * plan.block_rows * plan.block_columns * 4,
        plan.block_rows * (SILU_OPS * plan.rank + GATE_OPS * plan.hc * columns),
        plan.waves,
        resident(plan.waves, plan.held_registers + K2_BASE_VGPRS, plan.lds_bytes, arch),
    )


def k1_candidates(tokens: int, n_pad: int, arch: Arch) -> Iterator[Candidate]:
    """Every K1 plan for a folded weight that can be built, divides the rows, and keeps what it moves beyond the
    compulsory (partials, R2 once more) in its budget."""
    dma = 16 if 16 in arch.lds_dma_bytes else 0
    budget = k1_limits.partial_budget(tokens, HC, HS, n_pad)
    fused = K1FusedPlan(HC, HS, n_pad, LIVE, mfma_k=arch.mfma_k, dma_bytes=dma)
    tiles = [tile for tile in FUSED_TILES if tokens % (TILE * tile[0] * tile[1]) == 0]
    slices = [n for n in range(1, HS // 64 + 1) if HS % (n * 64) == 0]
    splits = [n for n in range(1, HC + 1) if HC % n == 0] + [HC * n for n in slices[1:]]
    for row_tiles, waves in tiles:
        for split in splits:
            plan = replace(fused, splits=split, row_tiles=row_tiles, waves=waves)
            if k1_limits.partial_bytes(split, tokens, plan.live) <= budget and not any(
                k1_limits.fused_problems(plan, arch)
            ):
                fields = {"method": "split_k", "split_k": split, "row_tiles": row_tiles, "waves": waves}
                yield Candidate(plan, fields)
    base = K1DecoupledPlan(HC, HS, n_pad, LIVE, mfma_k=arch.mfma_k, dma_bytes=dma or 4)
    groups = [n for n in range(1, base.column_tiles + 1) if base.column_tiles % n == 0]
    groups = [n for n in groups if n * tokens * _row_bytes(HC, HS)[0] <= budget]
    for row_tiles, waves in tiles:
        for group in groups:
            tile = replace(base, column_groups=group, row_tiles=row_tiles, waves=waves)
            for stages in range(2, min(choose.DEPTH, k1_limits.max_stages(tile, arch)) + 1):
                decoupled = replace(tile, stages=stages)
                if not any(k1_limits.decoupled_problems(decoupled, arch)):
                    fields = {"method": "decoupled", "stages": stages, "column_groups": group}
                    yield Candidate(decoupled, {**fields, "row_tiles": row_tiles, "waves": waves})


def k2_candidates(tokens: int, arch: Arch) -> Iterator[Candidate]:
    """Every K2 plan that can be built and divides the rows."""
    for rows in (rows for rows in BLOCK_ROWS if tokens % rows == 0):
        for column_waves, stream_waves, passes in choose.k2_shapes(HC, HS):
            plan = K2Plan(HC, HS, RANK, rows, column_waves, stream_waves, passes)
            if not any(plan.problems(arch)):
                names = ("block_rows", "column_waves", "stream_waves", "passes")
                yield Candidate(plan, {"method": "tile", **{name: getattr(plan, name) for name in names}})


def busy_simds(plan: choose.AnyK1Plan | K2Plan, tokens: int, part: Part) -> int:
    """SIMDs of `part` that get a wave; those of a workgroup share a CU."""
    waves = plan.tile.waves if isinstance(plan, K1SplitKPlan) else plan.waves
    workgroups = plan.workgroups(tokens)
    return min(workgroups * waves, min(workgroups, part.cus) * SIMDS)


def evaluate(plan: K1Plan | K2Plan, tokens: int, n_pad: int, arch: Arch, part: Part) -> Evaluation:
    """The predicted time of `plan`; a model has no outputs that could be out of tolerance."""
    works = [k2_work(plan, tokens, n_pad, arch)] if isinstance(plan, K2Plan) else k1_works(plan, tokens, arch)
    return Evaluation(sum(launch_seconds(work, arch, part) for work in works), None)


def jobs(arch: Arch, part: Part) -> Iterator[tuple[str, Job]]:
    """(section, job) for every entry of one architecture."""
    untuned = choose.Request(use_tuned=False)
    for section, counts in SECTIONS[arch.name].items():
        kind, _, stride = section.partition("_n")
        n_pad = int(stride) if stride else GENERAL_N_PAD
        for tokens in counts:
            plan: choose.AnyK1Plan | K2Plan
            shape = {"hc": HC, "hidden": HC * HS, "n_pad": n_pad, "cus": part.cus}
            if kind == "k1":
                plan = choose.k1(tokens, HC, HS, n_pad, LIVE, arch.name, part.cus, True, request=untuned)
                candidates = list(k1_candidates(tokens, n_pad, arch))
            else:
                plan = choose.k2(tokens, HC, HS, RANK, arch.name, part.cus, n_pad, use_tuned=False)
                candidates = list(k2_candidates(tokens, arch))
            busy = busy_simds(plan, tokens, part)
            candidates = [c for c in candidates if busy_simds(c.plan, tokens, part) >= busy]
            yield section, Job(tokens, shape, Candidate(plan, {"method": "heuristic"}), candidates)


def modelled(arch: Arch) -> dict[str, dict[str, dict[str, object]]]:
    """The sections of one architecture, for its full part."""
    part = arch.parts[0]
    command = f"python -m hcgr.tuned.model --arch {arch.name}"
    sections: dict[str, dict[str, dict[str, object]]] = {}
    for section, job in jobs(arch, part):
        entry = tune(
            job,
            lambda plan, tokens, n_pad: evaluate(plan, tokens, n_pad, arch, part),
            evidence="modelled",
            command=command,
        )
        sections.setdefault(section, {})[str(job.tokens)] = entry
    return sections


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m hcgr.tuned.model", description="Write modelled entries.")
    parser.add_argument("--arch", choices=sorted(SECTIONS), required=True)
    parser.add_argument("--table", type=Path, default=table.PATH, help="the table to write into")
    options = parser.parse_args(arguments)
    export(options.table, options.arch, modelled(arch_table.get(options.arch)))


if __name__ == "__main__":
    main()
