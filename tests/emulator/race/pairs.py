"""Pairs over global memory, within a workgroup and between them; and all pairs."""

from __future__ import annotations

from .lds_pairs import LDS
from .pair import ALL, ONE, Pair

WORKGROUP = (
    Pair(
        "global write then read",
        """
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x3ff, v5
global_store_dword v3, v0, s[4:5]
s_waitcnt vmcnt(0)
{s_barrier}
global_load_dword v6, v5, s[4:5]""",
        "no barrier orders them",
    ),
    Pair(
        "global read then write",
        """
v_add_u32_e32 v5, 0x100, v3
v_and_b32_e32 v5, 0x3ff, v5
global_load_dword v6, v5, s[4:5]
s_waitcnt vmcnt(0)
{s_barrier}
global_store_dword v3, v0, s[4:5]""",
        "global write races with the read",
    ),
    Pair(
        "rows of a reduction, all lanes store",
        """
s_lshl_b32 s14, s11, 6
v_lshl_add_u32 v5, v1, 2, s14
v_cmp_gt_u32_e32 vcc, {16|64}, v1
s_and_saveexec_b64 s[12:13], vcc
global_store_dword v5, v0, s[4:5]""",
        "global write races with the write",
    ),
    Pair(
        "16-bit elements of two waves in one word",
        """
v_lshlrev_b32_e32 v5, 2, v1
s_mul_i32 s14, s11, {2|0}
v_add_u32_e32 v5, s14, v5
global_store_short v5, v0, s[4:5]""",
        "global write races with the write",
        lanes=128,
    ),
    Pair(
        "bytes of two waves in one word",
        """
v_lshlrev_b32_e32 v5, 2, v1
s_lshl_b32 s14, s11, {0|4}
v_add_u32_e32 v5, s14, v5
global_store_byte v5, v0, s[4:5]
{|s_mov_b32 s14, 0}
v_lshlrev_b32_e32 v5, 2, v1
global_load_ubyte v6, v5, s[4:5] offset:{2|0}""",
        "global read races with the write",
        lanes=128,
    ),
    Pair(
        "atomics and plain reads",
        """
v_mov_b32_e32 v5, 1
global_atomic_add v4, v5, s[6:7]
s_waitcnt vmcnt(0)
{s_barrier}
global_load_dword v6, v4, s[6:7]""",
        "no barrier orders them",
    ),
    Pair(
        "buffer stores",
        """
s_mov_b32 s6, 0x4000
s_mov_b32 s7, 0x20000
v_lshlrev_b32_e32 v5, 2, {v0|v1}
buffer_store_dword v0, v5, s[4:7], 0 offen""",
        "global write races with the write",
    ),
)

#: Two waves in each of four workgroups store a partial each; who arrives last adds them all.
_PARTIAL = """
s_lshl_b32 s14, s10, 9
v_add_u32_e32 v5, s14, v3
"""


def _last_arriver(store: str, publish: str, barrier: str, lanes: str, after: str, load: str) -> str:
    return (
        _PARTIAL + f"global_store_dword v5, v0, s[4:5] {store}\n{publish}\n{barrier}\n{lanes}"
        + """
v_mov_b32_e32 v6, 1
global_atomic_add v7, v4, v6, s[6:7] sc0
""" + after + """
v_readfirstlane_b32 s15, v7
v_mov_b32_e32 v8, s15
ds_write_b32 v4, v8
""" + ALL + """
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v8, v4
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_ge_u32 s15, 3
s_cbranch_scc0 done
""" + "".join(f"global_load_dword v{9 + i}, v3, s[4:5] offset:{512 * i} {load}\n" for i in range(4)) + """
s_waitcnt vmcnt(0)
v_add_u32_e32 v9, v9, v10
v_add_u32_e32 v11, v11, v12
v_add_u32_e32 v9, v9, v11
global_store_dword v3, v9, s[8:9]
done:
s_nop 0"""
    )  # fmt: skip


_DRAIN, _FULL = "s_waitcnt vmcnt(0)", "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)"
_ACQUIRE = "s_waitcnt vmcnt(0)\nbuffer_inv sc1"

AGENT = (
    Pair(
        "every workgroup its own word",
        """
v_mov_b32_e32 v5, s10
s_mul_i32 s14, s10, {4|0}
v_mov_b32_e32 v6, s14
global_store_dword v6, v5, s[8:9]""",
        "nothing orders them",
        groups=3,
        lanes=64,
    ),
    Pair(
        "a neighbour's result",
        """
s_lshl_b32 s14, s10, 8
v_add_u32_e32 v5, s14, v3
global_store_dword v5, v0, s[4:5]
s_waitcnt vmcnt(0)
s_xor_b32 s14, s14, {0|0x100}
v_add_u32_e32 v5, s14, v3
global_load_dword v6, v5, s[4:5]""",
        "nothing orders them",
        groups=2,
        lanes=64,
    ),
    Pair(
        "sums by atomics",
        """
v_cvt_f32_u32_e32 v5, v0
{global_atomic_add_f32 v3, v5, s[8:9]|global_store_dword v3, v0, s[8:9]}
s_lshl_b32 s14, s10, 8
{|global_atomic_add_f32 v3, v5, s[8:9]}""",
        "nothing orders them",
        groups=2,
        lanes=64,
    ),
    Pair(
        "last arriver, written through",
        _last_arriver("{sc1|}", _DRAIN, "s_barrier", ONE, _DRAIN, "sc1"),
        "neither written through",
        4,
        128,
    ),
    Pair(
        "last arriver, written back",
        _last_arriver("", "{buffer_wbl2 sc1}\n" + _DRAIN, "s_barrier", ONE, _ACQUIRE, ""),
        "neither written through",
        4,
        128,
    ),
    Pair(
        "last arriver, waits for the stores",
        _last_arriver("sc1", "{" + _DRAIN + "}", "s_barrier", ONE, _DRAIN, "sc1"),
        "not waited for with vmcnt",
        4,
        128,
    ),
    Pair(
        "last arriver, invalidates",
        _last_arriver("", _FULL, "s_barrier", ONE, _DRAIN + "\n{buffer_inv sc1}", ""),
        "no buffer_inv sc1",
        4,
        128,
    ),
    Pair(
        "last arriver, loads go past the caches",
        _last_arriver("sc1", _DRAIN, "s_barrier", ONE, _DRAIN, "{sc1|}"),
        "no buffer_inv sc1",
        4,
        128,
    ),
    Pair(
        "last arriver, barrier before the arrival",
        _last_arriver("sc1", _DRAIN, "{s_barrier}", ONE, _DRAIN, "sc1"),
        "nothing orders them",
        4,
        128,
    ),
    Pair(
        "last arriver, one lane arrives",
        _last_arriver("sc1", _DRAIN, "s_barrier", "{" + ONE + "}", _DRAIN, "sc1"),
        "nothing orders them",
        4,
        128,
    ),
    Pair(
        "last arriver, relaxed",
        _last_arriver("{sc1|}", "{" + _DRAIN + "}", "s_barrier", ONE, _DRAIN, "{sc1|}"),
        "not waited for with vmcnt",
        4,
        128,
    ),
    Pair(
        "last arriver reads before its ticket",
        """
s_lshl_b32 s14, s10, 8
v_add_u32_e32 v5, s14, v3
global_store_dword v5, v0, s[4:5] sc1
s_waitcnt vmcnt(0)
v_mov_b32_e32 v6, 1
"""
        + ONE
        + """
global_atomic_add v7, v4, v6, s[6:7] sc0
s_mov_b64 exec, s[20:21]
{|global_load_dword v9, v3, s[4:5] sc1}
{|global_load_dword v10, v3, s[4:5] offset:256 sc1}
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s15, v7
s_cmp_eq_u32 s15, 1
s_cbranch_scc0 done
{global_load_dword v9, v3, s[4:5] sc1}
{global_load_dword v10, v3, s[4:5] offset:256 sc1}
s_waitcnt vmcnt(0)
v_add_u32_e32 v9, v9, v10
global_store_dword v3, v9, s[8:9]
done:
s_nop 0""",
        "nothing orders them",
        2,
        64,
    ),
    Pair(
        "counter reset by the last arriver",
        """
v_mov_b32_e32 v6, 1
"""
        + ONE
        + """
global_atomic_add v7, v4, v6, s[6:7] sc0
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s15, v7
{s_cmp_eq_u32 s15, 2|s_cmp_eq_u32 s15, 0}
s_cbranch_scc0 done
global_store_dword v4, v4, s[6:7]
done:
s_nop 0""",
        "nothing orders them",
        3,
        64,
    ),
)


def _flag(wait: str, flag: str, poll: str, after: str, load: str) -> str:
    return f"""
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] {load}
{wait}
{ONE}
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] {flag}
s_branch done
reader:
global_load_dword v6, v4, s[6:7] {poll}
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
{after}
global_load_dword v7, v3, s[4:5] {load}
done:
s_nop 0"""


def lock(release: str, unlock: str = "global_atomic_swap v4, v4, s[6:7]", try_first: str = "") -> str:
    """A counter behind a lock; ``try_first``: what a turn does before it tries to take it."""
    return f"""
{ONE}
v_mov_b32_e32 v6, 1
v_mov_b32_e32 v7, 0
again:
{try_first}
global_atomic_cmpswap v5, v4, v[6:7], s[6:7] sc0
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v5
s_cmp_eq_u32 s14, 0
s_cbranch_scc0 again
buffer_inv sc1
global_load_dword v8, v4, s[8:9]
s_waitcnt vmcnt(0)
v_add_u32_e32 v8, 1, v8
global_store_dword v4, v8, s[8:9]
{release}
{unlock}"""


FLAGS = (
    Pair(
        "flag, data waited for",
        _flag("{s_waitcnt vmcnt(0)}", "sc1", "sc1", "", "sc1"),
        "not waited for with vmcnt",
        3,
        64,
    ),
    Pair("flag, stored with a scope", _flag(_DRAIN, "{sc1|}", "sc1", "", "sc1"), "nothing orders them", 3, 64),
    Pair("flag, polled with a scope", _flag(_DRAIN, "sc1", "{sc1|}", "", "sc1"), "nothing orders them", 3, 64),
    Pair(
        "flag, written back",
        _flag("{buffer_wbl2 sc1}\ns_waitcnt vmcnt(0)", "sc1", "sc1", "buffer_inv sc1", ""),
        "neither written through",
        3,
        64,
    ),
    Pair("flag, invalidated", _flag(_FULL, "sc1", "sc1", "{buffer_inv sc1}", ""), "no buffer_inv sc1", 3, 64),
    Pair(
        "turns of a semaphore",
        f"""
wait:
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
buffer_inv sc1
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, s10
s_cbranch_scc0 wait
global_load_dword v7, v3, s[8:9]
s_waitcnt vmcnt(0)
v_add_u32_e32 v7, v7, v0
global_store_dword v3, v7, s[8:9]
{{buffer_wbl2 sc1}}
s_waitcnt vmcnt(0)
{ONE}
s_add_u32 s14, s10, 1
v_mov_b32_e32 v6, s14
global_store_dword v4, v6, s[6:7] sc1""",
        "neither written through",
        3,
        64,
    ),
    Pair("lock", lock("buffer_wbl2 sc1\n{s_waitcnt vmcnt(0)}"), "not waited for", 3, 64),
    Pair("lock, written back", lock("{buffer_wbl2 sc1}\ns_waitcnt vmcnt(0)"), "neither written through", 3, 64),
)

PAIRS = LDS + WORKGROUP + AGENT + FLAGS
