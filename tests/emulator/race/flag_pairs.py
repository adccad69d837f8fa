"""More pairs: what tells a flag from data, the scopes at which flags work, and memory that the scalar cache reads."""

from __future__ import annotations

from .pair import Pair
from .pairs import lock

_ONE = """
v_cmp_eq_u32_e32 vcc, 0, v0
s_and_saveexec_b64 s[12:13], vcc
"""
_ALL = "s_mov_b64 exec, s[20:21]"


def _handed_over(flag: str, poll: str, wait: str = "s_waitcnt vmcnt(0)") -> str:
    """Workgroup 0 stores data and a flag, for which the others poll."""
    return f"""
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
{wait}
s_barrier
{_ONE}
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] {flag}
s_branch done
reader:
{poll}
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
global_load_dword v7, v3, s[4:5] sc1
done:
s_nop 0"""


_POLL = "global_load_dword v6, v4, s[6:7] {}\ns_waitcnt vmcnt(0)\nv_readfirstlane_b32 s14, v6"
#: One lane polls, and tells the workgroup through LDS in each turn of the loop.
_POLL_AND_TELL = f"""{_ONE}
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
ds_write_b32 v4, v6
s_waitcnt lgkmcnt(0)
{_ALL}
s_barrier
ds_read_b32 v6, v4
s_waitcnt lgkmcnt(0)
v_readfirstlane_b32 s14, v6
s_barrier"""
#: A flag that is looked at once: who finds it down does without the data.
_LOOK_ONCE = """
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
{s_waitcnt vmcnt(0)}
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] sc1
s_branch done
reader:
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 done
global_load_dword v7, v3, s[4:5] sc1
done:
s_nop 0"""
#: Every workgroup publishes (value, state) in one store, and walks back until it meets a state of 2; the sum of all
#: before it is then in s16.
_LOOK_BACK = f"""
s_lshl_b32 s14, s10, 3
v_mov_b32_e32 v5, s14
v_mov_b32_e32 v10, s10
s_cmp_eq_u32 s10, 0
s_cselect_b32 s15, 2, 1
v_mov_b32_e32 v11, s15
{_ONE}
global_store_dwordx2 v5, v[10:11], s[6:7] {{sc1|}}
s_cmp_eq_u32 s10, 0
s_cbranch_scc1 done
s_mov_b32 s16, s10
s_sub_u32 s17, s10, 1
again:
s_lshl_b32 s14, s17, 3
v_mov_b32_e32 v7, s14
global_load_dwordx2 v[8:9], v7, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s18, v9
s_cmp_eq_u32 s18, 0
s_cbranch_scc1 again
v_readfirstlane_b32 s19, v8
s_add_u32 s16, s16, s19
s_cmp_eq_u32 s18, 2
s_cbranch_scc1 found
s_sub_u32 s17, s17, 1
s_branch again
found:
v_mov_b32_e32 v10, s16
v_mov_b32_e32 v11, 2
global_store_dwordx2 v5, v[10:11], s[6:7] sc1
done:
s_nop 0"""


def _scalar_data(acquire: str) -> str:
    """Who has seen the flag reads the data through the scalar cache."""
    return f"""
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
s_waitcnt vmcnt(0)
v_mov_b32_e32 v6, 1
global_store_dword v4, v6, s[6:7] sc1
s_branch done
reader:
{_POLL.format("sc1")}
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
{acquire}
s_load_dword s14, s[4:5], 0x0
s_waitcnt lgkmcnt(0)
done:
s_nop 0"""


#: The data is loaded in each turn, behind the flag's wait or before it.
_LOADED_ALONG = """
v_mov_b32_e32 v6, 1
s_cmp_eq_u32 s10, 0
s_cbranch_scc0 reader
global_store_dword v3, v0, s[4:5] sc1
s_waitcnt vmcnt(0)
global_store_dword v4, v6, s[6:7] sc1
s_branch done
reader:
global_load_dword v6, v4, s[6:7] sc1
{|global_load_dword v7, v3, s[4:5] sc1}
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s14, v6
s_cmp_eq_u32 s14, 1
s_cbranch_scc0 reader
{global_load_dword v7, v3, s[4:5] sc1}
s_waitcnt vmcnt(0)
global_store_dword v3, v7, s[8:9]
done:
s_nop 0"""
_UNLOCK = "global_store_dword v4, v4, s[6:7] sc1"
_LOOK_FIRST = """global_load_dword v8, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
v_readfirstlane_b32 s15, v8
s_cmp_eq_u32 s15, 0
s_cbranch_scc0 again"""

FLAG_PAIRS = (
    Pair(
        "flag, stored at agent scope",
        _handed_over("{sc1|sc0}", _POLL.format("sc1")),
        "between workgroups each of them needs sc1",
        2,
        64,
    ),
    Pair(
        "flag, polled at agent scope",
        _handed_over("sc1", _POLL.format("{sc1|sc0}")),
        "between workgroups each of them needs sc1",
        2,
        64,
    ),
    Pair(
        "flag that one lane polls for all",
        _handed_over("sc1", _POLL_AND_TELL, "{s_waitcnt vmcnt(0)}"),
        "not waited for with vmcnt",
        2,
        128,
    ),
    Pair("flag that is looked at once", _LOOK_ONCE, "not waited for with vmcnt", 2, 64),
    Pair("look-back over packed states", _LOOK_BACK, "nothing orders them", 6, 64),
    Pair(
        "lock, released by a store",
        lock("buffer_wbl2 sc1\n{s_waitcnt vmcnt(0)}", _UNLOCK),
        "not waited for",
        5,
        64,
    ),
    Pair(
        "lock, looked at before it is tried",
        lock("{buffer_wbl2 sc1}\ns_waitcnt vmcnt(0)", _UNLOCK, _LOOK_FIRST),
        "neither written through",
        5,
        64,
    ),
    Pair(
        "lock, whose values each turn sets anew",
        lock("buffer_wbl2 sc1\n{s_waitcnt vmcnt(0)}", _UNLOCK, "v_mov_b32_e32 v6, 1\nv_mov_b32_e32 v7, 0"),
        "not waited for",
        5,
        64,
    ),
    Pair("data loaded along with the flag", _LOADED_ALONG, "nothing orders them", 3, 64),
    Pair(
        "scalar load of what a flag hands over",
        _scalar_data("buffer_inv sc1\n{s_dcache_inv}"),
        "scalar cache is not coherent",
        3,
        64,
    ),
    Pair(
        "scalar load of what a flag hands over, past the L2",
        _scalar_data("{buffer_inv sc1}\ns_dcache_inv"),
        "scalar cache is not coherent",
        3,
        64,
    ),
    Pair(
        "scalar load behind another wave's store",
        """
s_cmp_eq_u32 s11, 0
s_cbranch_scc0 join
v_add_u32_e32 v5, 7, v0
global_store_dword v3, v5, s[8:9]
{s_waitcnt vmcnt(0)}
join:
s_barrier
s_load_dword s14, s[8:9], 0x0
s_waitcnt lgkmcnt(0)""",
        "not waited for with vmcnt",
        lanes=128,
    ),
)
