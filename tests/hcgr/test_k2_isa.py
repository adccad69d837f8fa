"""Properties of K2's machine code on both architectures, compiled without a GPU."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan.k2 import K2Plan, plan_k2

from .workers import in_turn, run_worker

#: What the heuristic picks for these tokens at production shape, and corners of what a plan may be.
TOKENS = (1, 24, 512, 2048, 65536)
CORNERS = (
    K2Plan(8, 2560, 320, 128, 8, 1, 2, norm_f32=True),
    K2Plan(4, 2560, 320, 64, 8, 1, 10, full_norm=True, norm_f32=True),
    K2Plan(2, 2560, 320, 64, 4, 2, 1),
    K2Plan(8, 8192, 256, 32, 1, 8, 1, full_norm=True),
    K2Plan(2, 40960, 128, 64, 8, 1, 16, activated=True),
    K2Plan(2, 512, 80, 32, 8, 1, 2),
    K2Plan(8, 512, 8, 16, 2, 1, 1),
    K2Plan(8, 2560, 448, 64, 8, 1, 5),
    K2Plan(4, 2560, 512, 16, 8, 1, 5, full_norm=True),
)


def plans(arch: str) -> list[K2Plan]:
    """Builds to look at on `arch`."""
    table = ARCHS[arch]
    chosen = [plan_k2(m, 4, 2560, 320, table.cus, table) for m in TOKENS]
    corners = [plan for plan in in_turn(arch, CORNERS, 3) if not any(plan.problems(table))]
    return list(dict.fromkeys([*chosen, *corners]))


def build(arch: str) -> dict[K2Plan, dict[str, Any]]:
    """Every plan compiled for `arch`."""
    request = json.dumps([["k2", asdict(plan)] for plan in plans(arch)])
    done = run_worker("kernel_isa_worker.py", arch, request)
    # FlyDSL reports some backend errors on standard error only, and still returns text.
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    return dict(zip(plans(arch), json.loads(done.stdout), strict=True))


def mnemonics(kernel: dict[str, Any]) -> Counter[str]:
    return Counter(line.split()[0] for line in kernel["instructions"])


every_build = pytest.mark.parametrize(
    ("arch", "plan"), [(arch, plan) for arch in ARCHS for plan in plans(arch)], ids=lambda value: str(value)
)


def test_tallest_tile_is_built_where_lds_allows_it() -> None:
    assert {arch: max(plan.block_rows for plan in plans(arch)) for arch in ARCHS} == {"gfx942": 64, "gfx950": 128}


@every_build
def test_no_spill_no_scratch_and_the_planned_lds(arch: str, plan: K2Plan) -> None:
    metadata = build(arch)[plan]["metadata"]
    for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert metadata[field] == "0", field
    assert metadata["group_segment_fixed_size"] == str(plan.lds_bytes)
    assert plan.lds_bytes <= ARCHS[arch].lds_bytes
    assert metadata["max_flat_workgroup_size"] == str(plan.lanes)
    # The waves of one workgroup are all resident.
    assert ARCHS[arch].waves_per_simd(int(metadata["vgpr_count"])) * 4 >= plan.waves


@every_build
def test_mfmas_are_what_the_shape_needs_and_the_named_padding(arch: str, plan: K2Plan) -> None:
    """The loops over passes and streams stay loops, so the text holds one stream's product of one wave."""
    table = ARCHS[arch]
    (kind,) = (name for name in mnemonics(build(arch)[plan]) if name.startswith("v_mfma"))
    assert kind == f"v_mfma_f32_16x16x{table.mfma_k}_bf16"
    count = mnemonics(build(arch)[plan])[kind]
    assert count == plan.block_rows // 16 * 2 * (plan.padded_rank // table.mfma_k)
    waves = plan.row_tiles(plan.block_rows) * plan.column_groups * plan.waves
    turns = plan.passes * plan.hc // plan.stream_waves
    assert plan.mfmas(plan.block_rows, table) == count * waves * turns
    assert 0 <= plan.padded_rank - plan.rank < 32


@every_build
def test_memory_accesses_are_plain_and_sixteen_bytes_wide(arch: str, plan: K2Plan) -> None:
    """No buffer descriptor, hence no clamp; only a row's rrms is narrower."""
    count = mnemonics(build(arch)[plan])
    memory = {n: c for n, c in count.items() if re.match(r"(global|buffer|flat|scratch|ds)_", n)}
    row_tiles, k_blocks = plan.block_rows // 16, plan.padded_rank // 32
    assert memory.pop("global_load_dword") == row_tiles
    assert memory.pop("global_store_dwordx4") == row_tiles
    norm = 2 if plan.norm_f32 else 1
    lora = -(-row_tiles * k_blocks // plan.waves)
    assert memory.pop("global_load_dwordx4") == lora + 2 * k_blocks + row_tiles + norm
    exchanged = 2 * row_tiles if plan.stream_waves > 1 else 0
    assert memory.pop("ds_write_b128") == lora + exchanged
    assert memory.pop("ds_read_b128") == row_tiles * k_blocks + exchanged * (plan.stream_waves - 1)
    assert memory == {}


@every_build
def test_barriers_are_outside_the_loops(arch: str, plan: K2Plan) -> None:
    lines = [line.split()[0] for line in build(arch)[plan]["instructions"]]
    assert lines.count("s_barrier") == (2 if plan.stream_waves > 1 else 1)
    first_mfma = next(i for i, name in enumerate(lines) if name.startswith("v_mfma"))
    assert lines.index("s_barrier") < first_mfma


@every_build
def test_each_row_tile_guards_its_store(arch: str, plan: K2Plan) -> None:
    lines = build(arch)[plan]["instructions"]
    stores = [i for i, line in enumerate(lines) if line.startswith("global_store")]
    for before, store in zip([lines.index("s_barrier"), *stores], stores, strict=False):
        assert [line for line in lines[before:store] if line.startswith("s_and_saveexec_b64")]


@every_build
def test_sigmoid_is_exact_exponential_and_reciprocal(arch: str, plan: K2Plan) -> None:
    count = mnemonics(build(arch)[plan])
    row_tiles, k_blocks = plan.block_rows // 16, plan.padded_rank // 32
    silu = 0 if plan.activated else 8 * -(-row_tiles * k_blocks // plan.waves)
    assert count["v_exp_f32_e32"] == count["v_rcp_f32_e32"] == 8 * row_tiles + silu


@pytest.mark.parametrize("arch", ARCHS)
def test_decode_has_all_its_loads_in_flight_at_once(arch: str) -> None:
    """One column of waves, a stream each: nothing waits for memory until everything is on its way."""
    plan = plan_k2(1, 4, 2560, 320, ARCHS[arch].cus, ARCHS[arch])
    assert (plan.stream_waves, plan.passes, plan.block_rows) == (4, 1, 16)
    lines = build(arch)[plan]["instructions"]
    loads = [i for i, line in enumerate(lines) if line.startswith("global_load_dwordx4")]
    first_wait = next(i for i, line in enumerate(lines) if re.match(r"s_waitcnt .*vmcnt", line))
    assert loads[-1] < first_wait
