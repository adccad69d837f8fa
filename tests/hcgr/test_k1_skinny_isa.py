"""Properties of the skinny K1's machine code and IR on both architectures, compiled without a GPU."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from hcgr.arch import ARCHS
from hcgr.plan.skinny import SkinnyPlan

from .workers import in_turn, run_worker

PLANS = (
    SkinnyPlan(4, 2560, 336, 324, 1, 4),
    SkinnyPlan(4, 2560, 336, 324, 8, 4),
    SkinnyPlan(4, 2560, 384, 324, 8, 8),
    SkinnyPlan(8, 2560, 384, 328, 5, 8),
    SkinnyPlan(2, 8192, 8, 6, 3, 4, combine=False),
    SkinnyPlan(8, 40960, 336, 328, 6, 8),
    SkinnyPlan(2, 8192, 384, 322, 8, 4),
    SkinnyPlan(4, 2560, 336, 320, 2, 4, combine=False, av=False),
    SkinnyPlan(4, 2560, 336, 324, 2, 4, av=False),
)


def plans(arch: str) -> list[SkinnyPlan]:
    """Builds to look at on `arch`."""
    return in_turn(arch, PLANS, 3)


def build(arch: str) -> dict[SkinnyPlan, dict[str, Any]]:
    """Every plan compiled for `arch`."""
    request = json.dumps([["skinny", asdict(plan)] for plan in plans(arch)])
    done = run_worker("kernel_isa_worker.py", arch, request)
    # FlyDSL reports some backend errors on standard error only, and still returns text.
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr.lower(), done.stderr
    return dict(zip(plans(arch), json.loads(done.stdout), strict=True))


def lines_of(arch: str, plan: SkinnyPlan) -> list[str]:
    lines: list[str] = build(arch)[plan]["instructions"]
    return lines


def arrival(lines: list[str]) -> int:
    """Position of the arrival: the only atomic there is."""
    (position,) = (i for i, line in enumerate(lines) if "atomic" in line)
    return position


every_build = pytest.mark.parametrize(
    ("arch", "plan"), [(arch, plan) for arch in ARCHS for plan in plans(arch)], ids=lambda value: str(value)
)


@every_build
def test_no_spill_no_scratch_and_the_planned_lds(arch: str, plan: SkinnyPlan) -> None:
    metadata = build(arch)[plan]["metadata"]
    for field in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size"):
        assert metadata[field] == "0", field
    assert metadata["group_segment_fixed_size"] == str(plan.lds_bytes)
    assert metadata["max_flat_workgroup_size"] == str(plan.lanes)
    # Two waves a SIMD at least: one workgroup is resident as a whole.
    assert ARCHS[arch].waves_per_simd(int(metadata["vgpr_count"])) >= 2


@every_build
def test_caches_are_neither_written_back_nor_invalidated(arch: str, plan: SkinnyPlan) -> None:
    names = {line.split()[0] for line in lines_of(arch, plan)}
    assert not names & {"buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol"}


@every_build
def test_arrival_is_a_plain_agent_scope_add_by_one_lane(arch: str, plan: SkinnyPlan) -> None:
    lines = lines_of(arch, plan)
    position = arrival(lines)
    # sc0 returns the old value; sc1 would be system scope (ISA, scope bits of atomics).
    assert re.fullmatch(r"global_atomic_add v\d+, v\d+, v\d+, s\[\d+:\d+\] sc0", lines[position])
    guard = [line.split()[0] for line in lines[max(0, position - 20) : position]]
    assert "s_and_saveexec_b64" in guard


@every_build
def test_partials_are_published_past_the_caches_and_waited_for(arch: str, plan: SkinnyPlan) -> None:
    """The one sc1 store, then vmcnt(0) and a barrier in every wave, then the arrival."""
    lines = lines_of(arch, plan)
    scope = "sc1" if plan.av else "sc0 sc1"
    published = [i for i, line in enumerate(lines) if re.match(r"global_store.*sc1", line)]
    assert len(published) == 1
    assert re.fullmatch(rf"global_store_dwordx4 v\[\d+:\d+\], v\[\d+:\d+\], off {scope}", lines[published[0]])
    between = lines[published[0] : arrival(lines)]
    wait = max(i for i, line in enumerate(between) if re.match(r"s_waitcnt .*vmcnt\(0\)", line))
    barrier = between.index("s_barrier")
    # No lane can go around the wait: after the last label before the barrier, there is no branch.
    assert wait < barrier
    after_wait = between[wait:barrier]
    assert not [line for line in after_wait if line.startswith(("s_cbranch", "s_branch", "global_", "buffer_"))]


@every_build
def test_partials_are_read_past_the_caches_after_the_arrival(arch: str, plan: SkinnyPlan) -> None:
    lines = lines_of(arch, plan)
    scope = "sc1" if plan.av else "sc0 sc1"
    reads = [i for i, line in enumerate(lines) if re.match(r"global_load.*sc1", line)]
    assert len(reads) == plan.hc
    assert all(lines[i].startswith("global_load_dwordx4") and lines[i].endswith(scope) for i in reads)
    position = arrival(lines)
    after = lines[position:]
    waited = next(i for i, line in enumerate(after) if re.match(r"s_waitcnt .*vmcnt\(0\)", line))
    assert position + waited < position + after.index("s_barrier") < min(reads)


@every_build
def test_ir_states_the_protocol(arch: str, plan: SkinnyPlan) -> None:
    """acq_rel at agent scope, relieved of availability by its MMRA tag; available-on-write stores."""
    ir = build(arch)[plan]["llvm_ir"]
    (atomic,) = (line for line in ir.splitlines() if "atomicrmw" in line)
    found = re.search(r'atomicrmw add ptr addrspace\(1\) .* syncscope\("agent"\) acq_rel.*!mmra !(\d+)', atomic)
    assert found, atomic
    assert re.search(rf'^!{found[1]} = !{{!"amdgcn-av", !"none"}}$', ir, re.MULTILINE)
    calls = Counter(re.findall(r"call .*@(llvm\.amdgcn\.av\.(?:store|load)\.b128)", ir))
    volatile = Counter(re.findall(r"(store|load) volatile", ir))
    if plan.av:
        assert calls == {"llvm.amdgcn.av.store.b128": 1, "llvm.amdgcn.av.load.b128": plan.hc}
        assert not volatile
        scopes = {
            re.findall(r"metadata !(\d+)", line)[-1] for line in ir.splitlines() if "call" in line and ".av." in line
        }
        (scope,) = scopes
        assert re.search(rf'^!{scope} = !{{!"agent"}}$', ir, re.MULTILINE)
    else:
        assert not calls
        assert volatile == {"store": 1, "load": plan.hc}


@every_build
def test_weights_come_straight_from_memory_in_sixteen_bytes(arch: str, plan: SkinnyPlan) -> None:
    lines = lines_of(arch, plan)
    streaming = [line for line in lines if re.search(r"\bnt\b", line)]
    assert len(streaming) == plan.columns
    assert all(line.startswith("global_load_dwordx4") for line in streaming)
    names = Counter(line.split()[0] for line in lines)
    rest = names["global_load_dwordx4"] - plan.columns - plan.hc
    assert rest == plan.tokens * (2 if plan.combine else 1)
    assert not [name for name in names if re.match(r"(buffer|flat|scratch)_", name)]


@every_build
def test_loads_of_a_step_are_all_in_flight_before_the_first_store(arch: str, plan: SkinnyPlan) -> None:
    lines = lines_of(arch, plan)
    stores = [i for i, line in enumerate(lines) if line.startswith("global_store")]
    loads = [i for i, line in enumerate(lines) if re.match(r"global_load_dwordx4(?!.*sc1)", line)]
    assert max(loads) < min(stores)


@every_build
def test_three_barriers(arch: str, plan: SkinnyPlan) -> None:
    assert [line for line in lines_of(arch, plan) if line.startswith("s_barrier")] == ["s_barrier"] * 3
