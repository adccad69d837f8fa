"""Pairs about FLAT, which is counted by vmcnt and by lgkmcnt and keeps no order in either."""

from __future__ import annotations

from .pair import ONE, Pair

#: v[8:9]: the flat address of this thread's word of LDS; v5: LDS byte of the thread that is one wave on.
_LOCAL = """
s_mov_b64 s[14:15], src_shared_base
v_mov_b32_e32 v9, s15
v_mov_b32_e32 v8, v3
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x3ff, v5
"""
#: v[8:9]: the flat address of data[thread].
_GLOBAL = """
v_mov_b32_e32 v9, s5
v_add_co_u32_e32 v8, vcc, s4, v3
v_addc_co_u32_e32 v9, vcc, 0, v9, vcc
"""
#: The last of two workgroups to arrive reads what both have published. ``%s`` stands before the arrival.
_PUBLISHED = (
    _GLOBAL
    + """
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 arrive
flat_store_dword v[8:9], v0 sc1
global_store_dword v3, v0, s[8:9] offset:1024 sc1
%s
arrive:
v_mov_b32_e32 v6, 1
v_mov_b32_e32 v7, 0
v_cmp_eq_u32_e32 vcc, 0, v0
s_and_saveexec_b64 s[12:13], vcc
global_atomic_add v7, v4, v6, s[6:7] sc0 sc1
s_mov_b64 exec, s[20:21]
s_waitcnt vmcnt(0) lgkmcnt(0)
v_readfirstlane_b32 s16, v7
s_cmp_eq_u32 s16, 1
s_cbranch_scc0 done
global_load_dword v10, v3, s[4:5] sc1
s_waitcnt vmcnt(0)
done:"""
)

FLAT_PAIRS = (
    Pair(
        "flat store to LDS behind which a younger operation may finish",
        _LOCAL
        + """
flat_store_dword v[8:9], v0
ds_write_b32 v3, v0 offset:1024
s_waitcnt lgkmcnt({0|1})
s_barrier
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)""",
        "the earlier one was not waited for",
    ),
    Pair(
        "flat store to LDS with vmcnt only",
        _LOCAL
        + """
flat_store_dword v[8:9], v0
s_waitcnt {lgkmcnt|vmcnt}(0)
s_barrier
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)""",
        "the earlier one was not waited for",
    ),
    Pair(
        "flat load from LDS before it is overwritten",
        _LOCAL
        + """
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
s_barrier
flat_load_dword v6, v[8:9]
ds_read_b32 v7, v3 offset:1024
s_waitcnt lgkmcnt({0|1})
s_barrier
ds_write_b32 v5, v0
s_waitcnt vmcnt(0) lgkmcnt(0)""",
        "the earlier one was not waited for",
    ),
    Pair(
        "as many younger operations as FLAT ones passed over",
        _LOCAL
        + """
ds_write_b32 v3, v0
flat_load_dword v6, v[8:9] offset:2048
{ds_read_b32 v7, v3 offset:1024}
s_waitcnt lgkmcnt(1)
s_barrier
ds_read_b32 v10, v5
s_waitcnt vmcnt(0) lgkmcnt(0)""",
        "the earlier one was not waited for",
    ),
    Pair(
        "flat store published behind a younger store",
        _PUBLISHED % "s_waitcnt vmcnt({0|1})",
        "was not waited for with vmcnt",
        groups=2,
        lanes=64,
    ),
    Pair(
        "flat flag, invalidated before lgkmcnt gives its value",
        f"""
v_mov_b32_e32 v8, s6
v_mov_b32_e32 v9, s7
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5]
buffer_wbl2 sc1
s_waitcnt vmcnt(0)
{ONE}
flat_store_dword v[8:9], v6 sc1
s_branch done
reader:
flat_load_dword v7, v[8:9] sc1
{{s_waitcnt vmcnt(0)}}
buffer_inv sc1
s_waitcnt vmcnt(0) lgkmcnt(0)
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 reader
global_load_dword v10, v3, s[4:5]
done:
s_nop 0""",
        "no buffer_inv sc1",
        2,
        64,
    ),
)
