"""Pairs about what the counters count besides, and about what an atomic tells its own wave."""

from __future__ import annotations

from .pair import ALL, ONE, Pair

#: v5: LDS byte of the thread that is one wave on.
_NEIGHBOUR = """
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x3ff, v5
"""


def _lds(younger: str) -> str:
    """A write to LDS behind which one younger operation may be in flight, or two."""
    return f"""{_NEIGHBOUR}
ds_write_b32 v3, v0
{younger}
s_waitcnt lgkmcnt({{1|2}})
s_barrier
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)"""


def _published(younger: str) -> str:
    """A store that is published behind one younger operation of vmcnt, or two."""
    return f"""
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
{younger}
s_waitcnt vmcnt({{1|2}})
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] sc1
s_branch done
reader:
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
global_load_dword v7, v3, s[4:5] sc1
done:
s_nop 0"""


COUNT_PAIRS = (
    Pair("write to LDS behind ds_bpermute", _lds("ds_bpermute_b32 v7, v4, v0"), "was not waited for"),
    Pair("write to LDS behind ds_permute", _lds("ds_permute_b32 v7, v4, v0"), "was not waited for"),
    Pair("write to LDS behind ds_swizzle", _lds("ds_swizzle_b32 v7, v0 offset:0x041f"), "was not waited for"),
    Pair(
        "store behind a spill",
        _published("scratch_store_dword off, v0, off offset:8"),
        "was not waited for with vmcnt",
        2,
        64,
    ),
    Pair(
        "store behind a reload",
        "scratch_store_dword off, v0, off offset:8\n" + _published("scratch_load_dword v7, off, off offset:8"),
        "was not waited for with vmcnt",
        2,
        64,
    ),
    Pair("store behind a write-back of narrow scope", _published("buffer_wbl2 sc0"), "was not waited for", 2, 64),
    Pair(
        "store behind one of no lane",
        _published("s_mov_b64 exec, 0\nglobal_store_dword v3, v0, s[8:9]" + ALL),
        "was not waited for with vmcnt",
        2,
        64,
    ),
    Pair(
        "arrival whose value does not come back",
        f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
s_waitcnt vmcnt(0)
{ONE}
global_atomic_add v4, v6, s[6:7]
s_branch done
reader:
{ONE}
global_atomic_add {{v7, v4|v4}}, v6, s[6:7] {{sc0}}
{ALL}
s_waitcnt vmcnt(0)
{{v_readfirstlane_b32 s14, v7}}
{{s_cmp_eq_u32 s14, 0}}
{{s_cbranch_scc1 done}}
global_load_dword v8, v3, s[4:5] sc1
done:
s_nop 0""",
        "nothing orders them",
        2,
        64,
    ),
    Pair(
        "arrival in LDS whose value does not come back",
        f"""
ds_write_b32 v3, v4 offset:4096
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 reader
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
{ONE}
ds_add_u32 v4, v6 offset:4096
s_branch done
reader:
v_mov_b32_e32 v7, 0
{{ds_add_rtn_u32 v7, v4, v4 offset:4096|ds_add_u32 v4, v4 offset:4096}}
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s14, v7
{{s_cmp_eq_u32 s14, 0}}
{{s_cbranch_scc1 done}}
v_lshlrev_b32_e32 v5, 2, v1
ds_read_b32 v8, v5
done:
s_nop 0""",
        "no barrier orders them",
        lanes=128,
    ),
    Pair(
        "load into LDS, handed over by a flag in LDS",
        """
ds_write_b32 v3, v4 offset:2048
s_waitcnt lgkmcnt(0)
s_barrier
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 reader
s_mov_b32 m0, 0
global_load_lds_dword v3, s[4:5]
{s_waitcnt vmcnt(0)}
v_mov_b32_e32 v5, 1
ds_write_b32 v4, v5 offset:2048
s_branch done
reader:
ds_read_b32 v6, v4 offset:2048
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
v_lshlrev_b32_e32 v7, 2, v1
ds_read_b32 v8, v7
done:
s_nop 0""",
        "no barrier orders them",
        lanes=128,
    ),
)
