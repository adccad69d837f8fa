"""Pairs over LDS, and the barriers around it."""

from __future__ import annotations

from .pair import ALL, ONE, Pair

#: LDS byte of the thread that is one wave on.
_NEIGHBOUR = """
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x3ff, v5
"""
_FILL = (
    _NEIGHBOUR
    + """
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
s_barrier
"""
)

LDS = (
    Pair(
        "write then read",
        _NEIGHBOUR
        + """
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
{s_barrier}
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)""",
        "no barrier orders them",
    ),
    Pair(
        "read then write",
        _FILL
        + """
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
ds_write_b32 v3, v6""",
        "lds write races with the read",
    ),
    Pair(
        "barrier without a wait for the write",
        _NEIGHBOUR
        + """
ds_write_b32 v3, v0
{s_waitcnt lgkmcnt(0)}
s_barrier
ds_read_b32 v6, v5""",
        "the earlier one was not waited for",
    ),
    Pair(
        "barrier without a wait for the read",
        _FILL
        + """
ds_read_b32 v6, v5
{s_waitcnt lgkmcnt(0)}
s_barrier
ds_write_b32 v3, v1""",
        "the earlier one was not waited for",
    ),
    Pair(
        "wait that leaves one write",
        _NEIGHBOUR
        + """
ds_write_b32 v3, v0 offset:1024
ds_write_b32 v3, v0
s_waitcnt lgkmcnt({0|1})
s_barrier
ds_read_b32 v6, v5""",
        "the earlier one was not waited for",
    ),
    Pair(
        "one buffer refilled while others read",
        _NEIGHBOUR
        + """
s_mov_b32 s14, 0
loop:
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
v_add_u32_e32 v0, 1, v0
s_add_u32 s14, s14, 1
s_cmp_lt_u32 s14, 3
s_cbranch_scc1 loop""",
        "lds write races with the read",
    ),
    Pair(
        "two buffers, alternating",
        _NEIGHBOUR
        + """
s_mov_b32 s14, 0
loop:
s_and_b32 s15, s14, {1|0}
s_lshl_b32 s15, s15, 10
v_add_u32_e32 v7, s15, v3
v_add_u32_e32 v8, s15, v5
ds_write_b32 v7, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v6, v8
s_waitcnt lgkmcnt(0)
v_add_u32_e32 v0, 1, v0
s_add_u32 s14, s14, 1
s_cmp_lt_u32 s14, 4
s_cbranch_scc1 loop""",
        "lds write races with the read",
    ),
    Pair(
        "barrier hoisted out of the loop",
        _NEIGHBOUR
        + """
s_mov_b32 s14, 0
{|s_barrier}
loop:
ds_write_b32 v3, v0
s_waitcnt lgkmcnt(0)
{s_barrier}
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
s_add_u32 s14, s14, 1
s_cmp_lt_u32 s14, 2
s_cbranch_scc1 loop""",
        "no barrier orders them",
    ),
    Pair(
        "epilogue reuses the tile",
        _FILL
        + """
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
v_lshlrev_b32_e32 v7, 1, v3
ds_write_b64 v7, v[0:1]""",
        "lds write races with the read",
    ),
    Pair(
        "load into LDS",
        _NEIGHBOUR
        + """
s_lshl_b32 s14, s11, 8
s_mov_b32 m0, s14
global_load_lds_dword v3, s[4:5]
{s_waitcnt vmcnt(0)|s_nop 0}
s_barrier
{s_nop 0|s_waitcnt vmcnt(0)}
ds_read_b32 v6, v5""",
        "the earlier one was not waited for",
    ),
    Pair(
        "load into LDS, counted",
        _NEIGHBOUR
        + """
s_lshl_b32 s14, s11, 8
s_add_u32 m0, s14, 0x400
global_load_lds_dword v3, s[4:5]
s_mov_b32 m0, s14
global_load_lds_dword v3, s[4:5]
s_waitcnt vmcnt({0|1})
s_barrier
ds_read_b32 v6, v5""",
        "the earlier one was not waited for",
    ),
    Pair(
        "load into LDS over a tile that is read",
        _FILL
        + """
ds_read_b32 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
s_lshl_b32 s14, s11, 8
s_mov_b32 m0, s14
global_load_lds_dword v3, s[4:5]""",
        "lds write races with the read",
    ),
    Pair(
        "sum of atomics, read",
        """
v_mov_b32_e32 v5, 1
ds_add_u32 v4, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
ds_read_b32 v6, v4
s_waitcnt lgkmcnt(0)""",
        "no barrier orders them",
    ),
    Pair(
        "atomics after their zero",
        ONE
        + """
ds_write_b32 v4, v4
s_waitcnt lgkmcnt(0)
"""
        + ALL
        + """
{s_barrier}
v_mov_b32_e32 v5, 1
ds_add_u32 v4, v5""",
        "no barrier orders them",
    ),
    Pair(
        "halves of a word",
        """
v_lshlrev_b32_e32 v5, 2, v1
s_lshl_b32 s14, s11, {1|0}
s_and_b32 s14, s14, 2
v_add_u32_e32 v5, s14, v5
ds_write_b16 v5, v0""",
        "lds write races with the write",
        lanes=128,
    ),
    Pair(
        "one word, every wave its own",
        ONE
        + ALL
        + """
v_mov_b32_e32 v5, s11
s_mul_i32 s14, s11, {4|0}
v_mov_b32_e32 v6, s14
ds_write_b32 v6, v5""",
        "lds write races with the write",
    ),
    Pair(
        "wide write over narrow reads",
        _FILL
        + """
ds_read_u16 v6, v5
s_waitcnt lgkmcnt(0)
{s_barrier}
v_lshlrev_b32_e32 v7, 4, v0
ds_write_b128 v7, v[0:3]""",
        "lds write races with the read",
    ),
    Pair(
        "two elements at once",
        _NEIGHBOUR
        + """
ds_write2_b32 v3, v0, v1 offset1:128
s_waitcnt lgkmcnt(0)
{s_barrier}
ds_read2_b32 v[6:7], v5 offset1:128
s_waitcnt lgkmcnt(0)""",
        "no barrier orders them",
        lanes=128,
    ),
    Pair(
        "flag in LDS",
        """
ds_write_b32 v3, v4
s_waitcnt lgkmcnt(0)
s_barrier
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 reader
v_mov_b32_e32 v5, 1
ds_write_b32 v3, v0 offset:2048
{s_waitcnt lgkmcnt(0)}
ds_write_b32 v4, v5 offset:64
s_branch done
reader:
ds_read_b32 v6, v4 offset:64
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
v_lshlrev_b32_e32 v7, 2, v1
ds_read_b32 v8, v7 offset:2048
done:
s_nop 0""",
        "no barrier orders them",
        lanes=128,
    ),
    Pair(
        "barrier that half of the waves skip",
        """
v_mov_b32_e32 v5, 0
s_cmp_lt_u32 s11, 2
s_cbranch_scc1 skip
s_barrier
skip:
v_add_u32_e32 v5, 1, v5
s_barrier
v_add_u32_e32 v5, 2, v5
s_barrier
{s_cmp_lt_u32 s11, 2}
{s_cbranch_scc0 done}
{s_barrier}
{done:}
s_nop 0""",
        "different barriers",
        check="synccheck",
    ),
)
