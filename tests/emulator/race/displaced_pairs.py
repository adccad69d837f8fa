"""Pairs in which an innocent access touches a word after the guilty one, and about which wave has written back."""

from __future__ import annotations

from .pair import ALL, ONE, Pair


def _halves(store: str, load: str, count: str) -> str:
    """Waves 0 and 1 store a half each of the same words, then wave 1 reads what wave 0 has stored."""
    return f"""
v_lshlrev_b32_e32 v5, 2, v1
s_lshl_b32 s14, s11, 1
v_add_u32_e32 v6, s14, v5
{store}
s_waitcnt {count}(0)
{{s_barrier}}
s_cmp_eq_u32 s11, 0
s_cbranch_scc1 done
{load}
done:
s_waitcnt {count}(0)"""


def _all_arrive(write: str, read: str, before: str = "") -> str:
    """Workgroups 0 and 1 write, of which the first need not have waited, and arrive; the third one reads."""
    return f"""
v_mov_b32_e32 v5, 1.0
v_mov_b32_e32 v7, 1
v_lshlrev_b32_e32 v6, 2, v1
s_cmp_eq_u32 s10, 2
s_cbranch_scc1 reader
s_lshl_b32 s14, s10, 1
v_add_u32_e32 v8, s14, v6
{write}
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 first
s_waitcnt vmcnt(0)
first:
{{s_waitcnt vmcnt(0)}}
{ONE}
global_atomic_add v4, v7, s[6:7]
s_branch done
reader:
global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v8
s_cmp_eq_u32 s14, 2
s_cbranch_scc0 reader
{before}
{read}
done:
s_nop 0"""


def _wide_flag(store: str, load: str, value: str) -> str:
    """Workgroup 0 stores data, then a value and its state in one store; the others poll the state."""
    return f"""
v_lshlrev_b32_e32 v5, 4, v0
v_mov_b32_e32 v8, 7
v_mov_b32_e32 v9, 1
v_mov_b32_e32 v10, v0
v_mov_b32_e32 v11, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[8:9] sc1
{{s_waitcnt vmcnt(0)}}
{store}
s_branch done
reader:
{load}
s_waitcnt vmcnt(0)
v_cmp_ne_u32_e32 vcc, 1, {value}
s_cbranch_vccnz reader
global_load_dword v7, v3, s[8:9] sc1
done:
s_nop 0"""


#: Of two waves that store, write back and wait, one arrives for both.
_WRITTEN_BACK_APART = f"""
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5]
buffer_wbl2 sc1
s_waitcnt vmcnt(0)
{{s_barrier}}
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
s_nop 0"""
#: Both waves add to a sum, the first one arrives. Where the other one is late, the sum is read before it has added.
_SUM_OF_TWO_WAVES = f"""
v_mov_b32_e32 v5, 1.0
v_mov_b32_e32 v7, 1
v_lshlrev_b32_e32 v6, 2, v1
s_cmp_eq_u32 s10, 1
s_cbranch_scc1 reader
global_atomic_add_f32 v6, v5, s[4:5]
s_waitcnt vmcnt(0)
{{s_barrier}}
{ONE}
s_cbranch_execz done
global_atomic_add v4, v7, s[6:7]
s_branch done
reader:
global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v8
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
global_load_dword v9, v6, s[4:5] sc1
done:
s_nop 0"""
#: Five workgroups read; the sixth one overwrites when all of them, or all but the first, have arrived.
_MANY_READERS = f"""
v_mov_b32_e32 v7, 1
s_cmp_eq_u32 s10, 5
s_cbranch_scc1 writer
global_load_dword v8, v3, s[4:5] sc1
s_waitcnt vmcnt(0)
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 {{arrive|done}}
arrive:
{ONE}
global_atomic_add v4, v7, s[6:7]
s_branch done
writer:
global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v8
s_cmp_eq_u32 s14, {{5|4}}
s_cbranch_scc0 writer
v_add_u32_e32 v9, 5, v0
global_store_dword v3, v9, s[4:5] sc1
done:
s_nop 0"""
#: Four waves read a buffer that the last one overwrites behind a barrier; the first need not have waited.
_READERS_IN_LDS = """
v_lshlrev_b32_e32 v5, 2, v1
s_cmp_eq_u32 s11, 3
s_cbranch_scc0 begin
ds_write_b32 v5, v0
s_waitcnt lgkmcnt(0)
begin:
s_barrier
ds_read_b32 v6, v5
s_cmp_eq_u32 s11, 0
s_cbranch_scc1 first
s_waitcnt lgkmcnt(0)
first:
{s_waitcnt lgkmcnt(0)}
s_barrier
s_cmp_eq_u32 s11, 3
s_cbranch_scc0 done
ds_write_b32 v5, v3
done:
s_waitcnt lgkmcnt(0)"""

#: Wave 0 fills a buffer in LDS again when all three, or two, of the others have counted that they are done with it.
_RING_OF_THREE = """
ds_write_b32 v3, v4 offset:4096
s_waitcnt lgkmcnt(0)
s_barrier
v_mov_b32_e32 v6, 1
v_lshlrev_b32_e32 v5, 2, v1
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 consumer
ds_write_b32 v5, v0
s_waitcnt lgkmcnt(0)
ds_write_b32 v4, v6 offset:4096
emptied:
ds_read_b32 v8, v4 offset:4100
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_eq_u32 s15, {192|128}
s_cbranch_scc0 emptied
v_add_u32_e32 v9, 7, v0
ds_write_b32 v5, v9
s_branch done
consumer:
ds_read_b32 v8, v4 offset:4096
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_eq_u32 s15, 1
s_cbranch_scc0 consumer
ds_read_b32 v10, v5
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s11, 1
{|s_cbranch_scc1 done}
ds_add_u32 v4, v6 offset:4100
done:
s_waitcnt lgkmcnt(0)"""

DISPLACED_PAIRS = (
    Pair(
        "halves of words in LDS, the other wave's half read",
        _halves("ds_write_b16 v6, v0", "ds_read_u16 v7, v5", "lgkmcnt"),
        "races with the",
        lanes=128,
    ),
    Pair(
        "halves of words, the other wave's half read",
        _halves("global_store_short v6, v0, s[4:5]", "global_load_ushort v7, v5, s[4:5]", "vmcnt"),
        "races with the",
        lanes=128,
    ),
    Pair(
        "halves of words, one of them not waited for",
        _all_arrive("global_store_short v8, v0, s[4:5] sc1", "global_load_dword v9, v6, s[4:5] sc1"),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair(
        "sum of floats, one of them not waited for",
        _all_arrive("global_atomic_add_f32 v6, v5, s[4:5]", "global_load_dword v9, v6, s[4:5] sc1"),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair(
        "count by atomics, one of them not waited for",
        _all_arrive("global_atomic_add v6, v7, s[4:5]", "global_load_dword v9, v6, s[4:5] sc1"),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair(
        "count by atomics, one of them not waited for, read behind an invalidation",
        _all_arrive("global_atomic_add v6, v7, s[4:5]", "global_load_dword v9, v6, s[4:5]", "buffer_inv sc1"),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair("sum of floats of two waves, of which one arrives for both", _SUM_OF_TWO_WAVES, "nothing orders them", 2, 128),
    Pair("one reader of many did not arrive", _MANY_READERS, "nothing orders them", 6, 64),
    Pair("one reader of many in LDS did not wait", _READERS_IN_LDS, "was not waited for"),
    Pair("buffer in LDS, one reader of three not counted", _RING_OF_THREE, "no barrier orders them"),
    Pair("stores written back by each wave, no barrier", _WRITTEN_BACK_APART, "nothing orders them", 2, 128),
    Pair(
        "flag of 16 bytes with a value",
        _wide_flag(
            "global_store_dwordx4 v5, v[8:11], s[4:5] sc1", "global_load_dwordx4 v[12:15], v5, s[4:5] sc1", "v15"
        ),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair(
        "flag of 8 bytes, polled by its second word",
        _wide_flag(
            "global_store_dwordx2 v5, v[8:9], s[4:5] sc1", "global_load_dword v12, v5, s[4:5] offset:4 sc1", "v12"
        ),
        "not waited for with vmcnt",
        3,
        64,
    ),
)

#: Counts that nobody waits for may be read at any time, if no release has promised them.
COUNT_IN_PASSING = f"""
v_mov_b32_e32 v7, 1
s_cmp_eq_u32 s10, 2
s_cbranch_scc1 reader
{ONE}
global_atomic_add v4, v7, s[4:5]
s_branch done
reader:
{ONE}
global_load_dword v9, v4, s[4:5] sc1
s_waitcnt vmcnt(0)
global_store_dword v4, v9, s[8:9]
done:
{ALL}
s_nop 0"""
