"""Pairs out of what compilers and public kernels write: barriers of a grid, compare-and-swap loops, flags, rings."""

from __future__ import annotations

from .pair import ALL, ONE, Pair


def _grid_barrier(release: str, leave: str = "s_barrier") -> str:
    """Every workgroup stores, all meet at a counter that one wave counts up, each reads what the next one stored."""
    return f"""
s_lshl_b32 s14, s10, 9
v_add_u32_e32 v5, s14, v3
v_mov_b32_e32 v6, 1
global_store_dword v5, v0, s[4:5]
s_barrier
{ONE}
s_cbranch_execz skip
{release}
global_atomic_add v4, v6, s[6:7]
spin:
global_load_dword v7, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s15, v7
s_cmp_lt_u32 s15, 3
s_cbranch_scc1 spin
buffer_inv sc1
skip:
{ALL}
{leave}
s_add_u32 s14, s10, 1
s_cmp_eq_u32 s14, 3
s_cselect_b32 s14, 0, s14
s_lshl_b32 s14, s14, 9
v_add_u32_e32 v5, s14, v3
global_load_dword v8, v5, s[4:5]
s_waitcnt vmcnt(0)
global_store_dword v5, v8, s[8:9]"""


def _small_flags(load: str, store: str, nbytes: int) -> str:
    """Two workgroups raise flags that lie in one word, for which a third one waits."""
    return f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 2
s_cbranch_scc1 reader
s_lshl_b32 s14, s10, 8
v_add_u32_e32 v5, s14, v3
global_store_dword v5, v0, s[4:5] sc1
{{s_waitcnt vmcnt(0)}}
{ONE}
s_mul_i32 s14, s10, {nbytes}
v_mov_b32_e32 v8, s14
{store} v8, v6, s[6:7] sc1
s_branch done
reader:
{load} v7, v4, s[6:7] sc1
{load} v8, v4, s[6:7] offset:{nbytes} sc1
s_waitcnt vmcnt(0)
v_and_b32_e32 v7, v7, v8
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 reader
global_load_dword v8, v3, s[4:5] sc1
global_load_dword v9, v3, s[4:5] offset:256 sc1
done:
s_nop 0"""


#: The end of a compare-and-swap loop: lanes whose word was another one than they had guessed take another turn.
_UNTIL_SWAPPED = """
v_cmp_ne_u32_e32 vcc, v8, v7
v_mov_b32_e32 v7, v8
s_and_b64 exec, exec, vcc
s_cbranch_execnz again
s_mov_b64 exec, s[20:21]"""
#: Wave 0 fills a buffer in LDS three times, wave 1 empties it; a word says whether it is full.
_RING = """
ds_write_b32 v3, v4 offset:4096
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v6, 1
v_lshlrev_b32_e32 v5, 2, v1
s_mov_b32 s16, 0
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 consumer
produce:
ds_read_b32 v8, v4 offset:4096
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_eq_u32 s15, 0
s_cbranch_scc0 produce
v_add_u32_e32 v9, s16, v0
ds_write_b32 v5, v9
{s_waitcnt lgkmcnt(0)}
ds_write_b32 v4, v6 offset:4096
s_add_u32 s16, s16, 1
s_cmp_eq_u32 s16, 3
s_cbranch_scc0 produce
s_branch done
consumer:
ds_read_b32 v8, v4 offset:4096
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_eq_u32 s15, 1
s_cbranch_scc0 consumer
ds_read_b32 v10, v5
s_waitcnt lgkmcnt(0)
ds_write_b32 v4, v4 offset:4096
s_add_u32 s16, s16, 1
s_cmp_eq_u32 s16, 3
s_cbranch_scc0 consumer
done:
s_nop 0"""

IDIOM_PAIRS = (
    Pair(
        "barrier of the grid, written back by one wave for all",
        _grid_barrier("{buffer_wbl2 sc1}\ns_waitcnt vmcnt(0)"),
        "neither written through",
        3,
        128,
    ),
    Pair(
        "barrier of the grid, write-back waited for",
        _grid_barrier("buffer_wbl2 sc1\n{s_waitcnt vmcnt(0)}"),
        "not waited for with vmcnt",
        3,
        128,
    ),
    Pair(
        "barrier of the grid, left together",
        _grid_barrier("buffer_wbl2 sc1\ns_waitcnt vmcnt(0)", "{s_barrier}"),
        "nothing orders them",
        3,
        128,
    ),
    Pair(
        "write-back by one wave, behind the barrier",
        f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5]
{{s_barrier}}
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 others
buffer_wbl2 sc1
s_waitcnt vmcnt(0)
others:
{{|s_barrier}}
{ONE}
s_cbranch_execz done
global_atomic_add v4, v6, s[6:7]
s_branch done
reader:
global_load_dword v7, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 reader
buffer_inv sc1
global_load_dword v8, v3, s[4:5]
done:
s_nop 0""",
        "not waited for with vmcnt",
        2,
        128,
    ),
    Pair(
        "load of another wave behind a write-back",
        f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 writer
global_load_dword v7, v3, s[4:5]
{{s_waitcnt vmcnt(0)}}
s_barrier
{ONE}
s_cbranch_execz done
buffer_wbl2 sc1
s_waitcnt vmcnt(0)
global_atomic_add v4, v6, s[6:7]
s_branch done
writer:
global_load_dword v7, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v7
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 writer
buffer_inv sc1
global_store_dword v3, v0, s[4:5]
done:
s_nop 0""",
        "not waited for with vmcnt",
        2,
        128,
    ),
    Pair(
        "compare-and-swap of a guess",
        f"""
v_and_b32_e32 v5, 28, v3
global_load_dword v7, v5, s[4:5]
s_waitcnt vmcnt(0)
again:
v_max_u32_e32 v6, v7, v0
{{global_atomic_cmpswap v8, v5, v[6:7], s[4:5] sc0|global_store_dword v5, v6, s[4:5]}}
{{s_nop 0|global_load_dword v8, v5, s[4:5] sc1}}
s_waitcnt vmcnt(0)
{{s_nop 0|v_mov_b32_e32 v7, v8}}
{_UNTIL_SWAPPED}""",
        "nothing orders them",
        2,
        128,
    ),
    Pair(
        "compare-and-swap of what was loaded elsewhere",
        f"""
v_and_b32_e32 v5, 28, v3
global_load_dword v7, v5, s[4:5]
s_waitcnt vmcnt(0)
{{s_nop 0|v_mov_b32_e32 v9, v7}}
{{s_nop 0|v_mov_b32_e32 v7, 0}}
again:
v_add_u32_e32 v6, {{v7|v9}}, v0
global_atomic_cmpswap v8, v5, v[6:7], s[4:5] sc0
s_waitcnt vmcnt(0)
{_UNTIL_SWAPPED}""",
        "nothing orders them",
        2,
        128,
    ),
    Pair(
        "compare-and-swap in LDS of a guess",
        f"""
ds_write_b32 v3, v4
s_waitcnt lgkmcnt(0)
s_barrier
v_and_b32_e32 v5, 28, v3
ds_read_b32 v7, v5
s_waitcnt lgkmcnt(0)
again:
v_add_u32_e32 v6, v7, v0
ds_cmpst_rtn_b32 v8, v5, v7, v6
s_waitcnt lgkmcnt(0)
{_UNTIL_SWAPPED}
{{s_nop 0|ds_write_b32 v5, v0}}""",
        "no barrier orders them",
        lanes=128,
    ),
    Pair("flags of one byte in one word", _small_flags("global_load_ubyte", "global_store_byte", 1),
         "not waited for with vmcnt", 3, 64),
    Pair("flags of two bytes in one word", _small_flags("global_load_ushort", "global_store_short", 2),
         "not waited for with vmcnt", 3, 64),
    Pair("buffer in LDS, full and empty by turns", _RING, "no barrier orders them", lanes=128),
    Pair(
        "sum by atomics, read behind an arrival",
        f"""
v_mov_b32_e32 v6, 1.0
v_mov_b32_e32 v7, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_atomic_add_f32 v3, v6, s[4:5]
{{s_waitcnt vmcnt(0)}}
{ONE}
global_atomic_add v4, v7, s[6:7]
s_branch done
reader:
global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v8
s_cmp_eq_u32 s14, 0
s_cbranch_scc1 reader
global_load_dword v9, v3, s[4:5] sc1
done:
s_nop 0""",
        "not waited for with vmcnt",
        2,
        64,
    ),
)  # fmt: skip
