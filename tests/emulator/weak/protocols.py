"""Pairs of two-workgroup protocols: one that lacks what the memory model demands, one that is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class Protocol:
    """Workgroup 0 publishes, workgroup 1 reads. ``expected(lane)``: what ``out[lane]`` must be, vectorised.

    deadlock: the unsafe form never sees the flag. completion: the one that the unsafe form needs to go wrong.
    """

    name: str
    unsafe: tuple[str, ...]
    safe: tuple[str, ...]
    expected: Callable[[torch.Tensor], torch.Tensor]
    deadlock: bool = False
    completion: str = "earliest"
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _split(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """``- line`` stands in the unsafe form only, ``+ line`` in the safe one only."""
    lines = [line.strip() for line in text.strip().splitlines()]
    unsafe = tuple(line.removeprefix("- ") for line in lines if not line.startswith("+ "))
    safe = tuple(line.removeprefix("+ ") for line in lines if not line.startswith("- "))
    return unsafe, safe


def _message(
    name: str,
    *,
    before: str = "global_load_dword v5, v0, s[4:5]",
    poll: str = "global_load_dword v3, v15, s[8:9] offset:2048 sc1",
    acquire: str = "buffer_inv sc1",
    read: str = "global_load_dword v2, v0, s[4:5]",
    write: str = "global_store_dword v0, v0, s[4:5]",
    release: str = "buffer_wbl2 sc1\ns_waitcnt vmcnt(0)",
    signal: str = "global_store_dword v15, v7, s[8:9] offset:2048 sc1",
    expected: Callable[[torch.Tensor], torch.Tensor] = lambda lane: 4 * lane,
    **options: Any,
) -> Protocol:
    """Workgroup 1 has read the data (``before``), waits for the flag, acquires and reads; 0 writes and signals."""
    text = f"""
        v_mov_b32_e32 v7, 1
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 producer
        {before}
        s_waitcnt vmcnt(0) lgkmcnt(0)
        spin:
        {poll}
        s_waitcnt vmcnt(0)
        v_readfirstlane_b32 s20, v3
        s_cmp_eq_u32 s20, 0
        s_cbranch_scc1 spin
        {acquire}
        {read}
        s_waitcnt vmcnt(0) lgkmcnt(0)
        global_store_dword v0, v2, s[8:9]
        s_endpgm
        producer:
        {write}
        {release}
        {signal}"""
    unsafe, safe = _split("\n".join(line for line in text.splitlines() if line.strip()))
    return Protocol(name, unsafe, safe, expected, **options)


_SC1_DATA = {"write": "global_store_dword v0, v0, s[4:5] sc1", "release": "s_waitcnt vmcnt(0)"}
_POLLED_IN_L1 = """- global_load_dword v3, v15, s[8:9] offset:2048
    + global_load_dword v3, v15, s[8:9] offset:2048 sc1"""
#: Keeps a wave busy without any memory operation, so that others get their turn.
_DELAY = """s_movk_i32 s30, 400
    delay:
    s_sub_u32 s30, s30, 1
    s_cmp_lg_u32 s30, 0
    s_cbranch_scc1 delay"""

PROTOCOLS = (
    _message("acquire without buffer_inv", acquire="+ buffer_inv sc1\ns_nop 0"),
    _message("buffer_inv of workgroup scope", acquire="- buffer_inv sc0\n+ buffer_inv sc1"),
    _message("release without buffer_wbl2", release="+ buffer_wbl2 sc1\ns_waitcnt vmcnt(0)"),
    _message("buffer_wbl2 of workgroup scope", release="- buffer_wbl2 sc0\n+ buffer_wbl2 sc1\ns_waitcnt vmcnt(0)"),
    _message("buffer_wbl2 before the store", write="- buffer_wbl2 sc1\nglobal_store_dword v0, v0, s[4:5]",
             release="+ buffer_wbl2 sc1\ns_waitcnt vmcnt(0)"),
    _message("buffer_inv before the flag", before="- buffer_inv sc1\nglobal_load_dword v5, v0, s[4:5]",
             acquire="+ buffer_inv sc1\ns_nop 0"),
    _message("write-through data, plain reader", **_SC1_DATA, acquire="s_nop 0",
             read="- global_load_dword v2, v0, s[4:5]\n+ global_load_dword v2, v0, s[4:5] sc1"),
    _message("workgroup-scope reader", **_SC1_DATA, acquire="s_nop 0",
             read="- global_load_dword v2, v0, s[4:5] sc0\n+ global_load_dword v2, v0, s[4:5] sc0 sc1"),
    _message("plain data, bypassing reader", release="s_waitcnt vmcnt(0)",
             write="- global_store_dword v0, v0, s[4:5]\n+ global_store_dword v0, v0, s[4:5] sc1",
             read="global_load_dword v2, v0, s[4:5] sc1"),
    _message("workgroup-scope data", release="s_waitcnt vmcnt(0)",
             write="- global_store_dword v0, v0, s[4:5] sc0\n+ global_store_dword v0, v0, s[4:5] sc0 sc1"),
    _message("non-temporal is no scope", release="s_waitcnt vmcnt(0)",
             write="- global_store_dword v0, v0, s[4:5] nt\n+ global_store_dword v0, v0, s[4:5] sc1 nt"),
    _message("buffer store and load", acquire="s_nop 0", release="s_waitcnt vmcnt(0)",
             before="buffer_load_dword v5, v0, s[4:7], 0 offen",
             write="- buffer_store_dword v0, v0, s[4:7], 0 offen\n+ buffer_store_dword v0, v0, s[4:7], 0 offen sc1",
             read="buffer_load_dword v2, v0, s[4:7], 0 offen sc1"),
    _message("load into LDS of a stale line", acquire="+ buffer_inv sc1\ns_nop 0",
             read="global_load_lds_dword v0, s[4:5]\ns_waitcnt vmcnt(0)\nds_read_b32 v2, v0"),
    _message("flag polled in L1", deadlock=True,
             poll=_POLLED_IN_L1),
    _message("flag stays in L2", deadlock=True,
             signal="- global_store_dword v15, v7, s[8:9] offset:2048\n"
                    "+ global_store_dword v15, v7, s[8:9] offset:2048 sc1"),
    _message("flag by an atomic, polled in L1", deadlock=True, signal="global_atomic_add v15, v7, s[8:9] offset:2048",
             poll=_POLLED_IN_L1),
    _message("scalar cache is not coherent", before="s_load_dword s21, s[4:5], 0x8", **_SC1_DATA,
             acquire="buffer_inv sc1\n+ s_dcache_inv\ns_nop 0", expected=lambda lane: torch.full_like(lane, 8),
             read="s_load_dword s21, s[4:5], 0x8\ns_waitcnt lgkmcnt(0)\nv_mov_b32_e32 v2, s21"),
    _message("one XCD, other CU: stale L1", acquire="+ buffer_inv sc1\ns_nop 0", release="s_waitcnt vmcnt(0)",
             signal="global_store_dword v15, v7, s[8:9] offset:2048 sc1", options={"xcds": 1}),
    _message("zero-fill by a plain store, then an atomic elsewhere",
             before="s_nop 0", acquire="s_nop 0", release="s_waitcnt vmcnt(0)",
             write="- global_store_dword v0, v15, s[4:5]\n+ global_store_dword v0, v15, s[4:5] sc1",
             read="global_atomic_add v2, v0, v7, s[4:5] sc0\ns_waitcnt vmcnt(0)\nv_add_u32_e32 v2, 3, v2",
             expected=lambda lane: torch.full_like(lane, 3)),
    _message("no wait between buffer_wbl2 and the arrival", completion="latest",
             release="buffer_wbl2 sc1\n+ s_waitcnt vmcnt(0)",
             signal=f"global_atomic_add v8, v15, v7, s[8:9] offset:2048 sc0\n{_DELAY}"),
    _message("no wait between write-through data and the arrival", completion="latest",
             write="global_store_dword v0, v0, s[4:5] sc1", release="+ s_waitcnt vmcnt(0)\ns_nop 0",
             signal=f"global_atomic_add v8, v15, v7, s[8:9] offset:2048 sc0\n{_DELAY}"),
)  # fmt: skip
