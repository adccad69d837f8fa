"""Pairs of snippets: one that a missing or too loose wait makes wrong, one that is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

WORD = torch.arange(1024)


@dataclass(frozen=True)
class Pair:
    """``unsafe`` and ``safe`` differ in one place. ``expected(lane)``: what ``out[lane]`` must be, vectorised.

    value: under latest completion the unsafe one gives a wrong value. finding: the ``waits`` check reports it, under
    both completions, with these words in its message.
    """

    name: str
    unsafe: tuple[str, ...]
    safe: tuple[str, ...]
    expected: Callable[[torch.Tensor], torch.Tensor]
    value: bool = True
    finding: str = ""
    lanes: int = 64
    groups: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _pair(name: str, text: str, expected: Callable[[torch.Tensor], torch.Tensor], **options: Any) -> Pair:
    """Lines of ``text``: ``- line`` stands in the unsafe snippet only, ``+ line`` in the safe one only."""
    lines = [line.strip() for line in text.strip().splitlines()]
    unsafe = tuple(line.removeprefix("- ") for line in lines if not line.startswith("+ "))
    safe = tuple(line.removeprefix("+ ") for line in lines if not line.startswith("- "))
    return Pair(name, unsafe, safe, expected, **options)


def _plus(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda lane: 1000 + lane + n


def _constant(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda lane: torch.full_like(lane, n)


STORE = "global_store_dword v0, v2, s[8:9]"
#: Puts 1000 + 64 + lane into LDS dword ``lane``.
FILL_LDS = """global_load_dword v9, v0, s[4:5] offset:256
    s_waitcnt vmcnt(0)
    ds_write_b32 v0, v9"""

PAIRS = (
    _pair("global load, no wait", f"""
        global_load_dword v1, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        v_add_u32_e32 v2, 1, v1
        {STORE}""", _plus(1), finding="v1 is read while `global_load_dword v1"),
    _pair("buffer load, no wait", f"""
        buffer_load_dword v1, v0, s[4:7], 0 offen
        + s_waitcnt vmcnt(0)
        v_add_u32_e32 v2, 1, v1
        {STORE}""", _plus(1), finding="no s_waitcnt since it was issued"),
    _pair("wait for the other counter", f"""
        global_load_dword v1, v0, s[4:5]
        - s_waitcnt lgkmcnt(0)
        + s_waitcnt vmcnt(0)
        v_add_u32_e32 v2, 1, v1
        {STORE}""", _plus(1), finding="`s_waitcnt lgkmcnt(0)` (/src/kernels/probe.py:12, asm line"),
    _pair("vmcnt one too many", f"""
        global_load_dword v1, v0, s[4:5]
        global_load_dword v3, v0, s[4:5] offset:256
        - s_waitcnt vmcnt(1)
        + s_waitcnt vmcnt(0)
        v_add_u32_e32 v2, v1, v3
        {STORE}""", lambda lane: 2064 + 2 * lane, finding="is too loose, it takes vmcnt(0)"),
    _pair("vmcnt counts stores between", f"""
        v_mov_b32_e32 v8, 7
        global_store_dword v0, v8, s[8:9] offset:1024
        global_load_dword v1, v0, s[4:5]
        global_store_dword v0, v8, s[8:9] offset:2048
        - s_waitcnt vmcnt(2)
        + s_waitcnt vmcnt(1)
        v_add_u32_e32 v2, 1, v1
        {STORE}""", _plus(1), finding="it takes vmcnt(1)"),
    _pair("wide load, last register", f"""
        v_lshlrev_b32_e32 v10, 2, v0
        global_load_dwordx4 v[4:7], v10, s[4:5]
        + s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, v7
        {STORE}""", lambda lane: 1003 + 4 * lane, finding="v7 is read"),
    _pair("load into AGPR, no wait", f"""
        global_load_dword a3, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        v_accvgpr_read_b32 v2, a3
        {STORE}""", _plus(0), finding="a3 is read"),
    _pair("overwriting what a load will write", f"""
        global_load_dword v2, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, 5
        - s_waitcnt vmcnt(0)
        {STORE}""", _constant(5), finding="v2 is overwritten while"),
    _pair("LDS read over a global load's register", f"""
        ds_write_b32 v0, v0
        global_load_dword v2, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        ds_read_b32 v2, v0
        - s_waitcnt lgkmcnt(0)
        - s_waitcnt vmcnt(0)
        + s_waitcnt lgkmcnt(0)
        {STORE}""", lambda lane: 4 * lane, finding="v2 is overwritten while"),
    _pair("store of a value in flight", """
        global_load_dword v2, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        global_store_dword v0, v2, s[8:9]""", _plus(0), finding="v2 is read while"),
    _pair("address in flight", f"""
        global_load_dword v3, v15, s[8:9]
        - v_mov_b32_e32 v4, 0
        + s_waitcnt vmcnt(0)
        global_load_dword v1, v3, s[4:5]
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, v1
        {STORE}""", _constant(1000), value=False, finding="v3 is read while"),
    _pair("LDS read, no wait", f"""
        {FILL_LDS}
        ds_read_b32 v2, v0
        + s_waitcnt lgkmcnt(0)
        v_add_u32_e32 v2, 1, v2
        {STORE}""", _plus(65), finding="v2 is read while `ds_read_b32"),
    _pair("lgkmcnt one too many", f"""
        {FILL_LDS}
        ds_read_b32 v3, v0
        ds_read_b32 v4, v0
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, v4
        {STORE}""", _plus(64), finding="it takes lgkmcnt(0)"),
    _pair("ds_bpermute, no wait", f"""
        global_load_dword v1, v0, s[4:5]
        s_waitcnt vmcnt(0)
        ds_bpermute_b32 v2, v15, v1
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, v2
        {STORE}""", _constant(1000), finding="`ds_bpermute_b32"),
    _pair("LDS atomic result, no wait", f"""
        {FILL_LDS}
        ds_add_rtn_u32 v2, v0, v0
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, v2
        {STORE}""", _plus(64), finding="`ds_add_rtn_u32"),
    _pair("global atomic result, no wait", f"""
        v_mov_b32_e32 v3, 3
        global_atomic_add v2, v0, v3, s[4:5] sc0
        + s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, v2
        {STORE}""", _plus(0), finding="`global_atomic_add"),
    _pair("scalar load, no wait", f"""
        s_load_dword s10, s[4:5], 0x10
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, s10
        {STORE}""", _constant(1004), finding="s10 is read while `s_load_dword"),
    _pair("lgkmcnt(1) after two scalar loads", f"""
        s_load_dword s10, s[4:5], 0x10
        s_load_dword s11, s[4:5], 0x14
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, s10
        {STORE}""", _constant(1004), finding="`s_waitcnt lgkmcnt(1)` (/src/kernels/probe.py:12, asm line"),
    _pair("lgkmcnt(1) with LDS and scalar loads mixed", f"""
        {FILL_LDS}
        ds_read_b32 v2, v0
        s_load_dword s11, s[4:5], 0x14
        - s_waitcnt lgkmcnt(1)
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, v2
        {STORE}""", _plus(64), finding="v2 is read while `ds_read_b32"),
    _pair("scalar branch on a value in flight", f"""
        v_mov_b32_e32 v2, 0
        s_load_dword s10, s[4:5], 0x10
        + s_waitcnt lgkmcnt(0)
        s_cmp_lg_u32 s10, 0
        s_cselect_b32 s12, 9, 8
        v_mov_b32_e32 v2, s12
        {STORE}""", _constant(9), finding="s10 is read while"),
    _pair("vcc in flight", f"""
        s_mov_b64 vcc, 0
        s_load_dwordx2 vcc, s[4:5], 0x10
        + s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v3, 1
        v_cndmask_b32_e32 v2, 0, v3, vcc
        v_and_b32_e32 v2, 0, v2
        {STORE}""", _constant(0), value=False, finding="vcc_lo is read while"),
    _pair("clock, no wait", f"""
        s_memtime s[10:11]
        + s_waitcnt lgkmcnt(0)
        s_cmp_lg_u64 s[10:11], 0
        v_mov_b32_e32 v2, 0
        {STORE}""", _constant(0), value=False, finding="s10 is read while `s_memtime"),
    _pair("FLAT load, vmcnt alone", f"""
        v_mov_b32_e32 v5, s5
        v_add_co_u32_e32 v4, vcc, s4, v0
        v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
        flat_load_dword v1, v[4:5]
        - s_waitcnt vmcnt(0)
        + s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32_e32 v2, v1
        {STORE}""", _plus(0), finding="it takes lgkmcnt(0)"),
    _pair("FLAT load, lgkmcnt alone", f"""
        v_mov_b32_e32 v5, s5
        v_add_co_u32_e32 v4, vcc, s4, v0
        v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
        flat_load_dword v1, v[4:5]
        - s_waitcnt lgkmcnt(0)
        + s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32_e32 v2, v1
        {STORE}""", _plus(0), finding="it takes vmcnt(0)"),
    _pair("FLAT load does not count as younger", f"""
        v_mov_b32_e32 v5, s5
        v_add_co_u32_e32 v4, vcc, s4, v0
        v_addc_co_u32_e32 v5, vcc, 0, v5, vcc
        global_load_dword v1, v0, s[4:5]
        flat_load_dword v3, v[4:5]
        - s_waitcnt vmcnt(1) lgkmcnt(0)
        + s_waitcnt vmcnt(0) lgkmcnt(0)
        v_mov_b32_e32 v2, v1
        {STORE}""", _plus(0), finding="v1 is read while `global_load_dword"),
    _pair("scratch load, no wait", f"""
        v_mov_b32_e32 v3, 77
        scratch_store_dword off, v3, off offset:8
        scratch_load_dword v2, off, off offset:8
        + s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, v2
        {STORE}""", _constant(77), finding="`scratch_load_dword"),
    _pair("load into LDS, no wait", f"""
        global_load_lds_dword v0, s[4:5]
        + s_waitcnt vmcnt(0)
        ds_read_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        {STORE}
        s_waitcnt vmcnt(0)""", _plus(0), finding="LDS byte 0x0 is read while `global_load_lds_dword"),
    _pair("load into LDS, vmcnt one too many", f"""
        s_movk_i32 m0, 0x400
        buffer_load_dword v0, s[4:7], 0 offen lds
        s_mov_b32 m0, 0
        buffer_load_dword v0, s[4:7], 0 offen lds
        - s_waitcnt vmcnt(1)
        + s_waitcnt vmcnt(0)
        ds_read_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        {STORE}""", _plus(0), finding="is too loose, it takes vmcnt(0)"),
    _pair("load into LDS, read by another wave without a barrier", f"""
        v_and_b32_e32 v7, 0xff, v0
        global_load_lds_dword v7, s[4:5]
        s_waitcnt vmcnt(0)
        + s_barrier
        ds_read_b32 v2, v7
        s_waitcnt lgkmcnt(0)
        {STORE}""", lambda lane: 1000 + lane % 64, value=False, finding="has landed without a barrier", lanes=128),
    _pair("load into LDS, barrier before the wait", f"""
        v_readfirstlane_b32 s20, v0
        s_cmp_lg_u32 s20, 0
        s_cbranch_scc1 reader
        global_load_lds_dword v0, s[4:5]
        + s_waitcnt vmcnt(0)
        reader:
        s_barrier
        - s_waitcnt vmcnt(0)
        v_and_b32_e32 v7, 0xff, v0
        ds_read_b32 v2, v7
        s_waitcnt lgkmcnt(0)
        {STORE}""", lambda lane: 1000 + lane % 64, value=False, finding="LDS byte 0x0", lanes=128),
    _pair("LDS write over a load into LDS", f"""
        v_mov_b32_e32 v3, 5
        global_load_lds_dword v0, s[4:5]
        + s_waitcnt vmcnt(0)
        ds_write_b32 v0, v3
        s_waitcnt vmcnt(0) lgkmcnt(0)
        ds_read_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        {STORE}""", _constant(5), finding="LDS byte 0x0 is written while"),
    _pair("load into LDS out of order (hypothesis)", f"""
        global_load_lds_dword v0, s[4:5]
        s_movk_i32 m0, 0x400
        global_load_lds_dword v0, s[4:5]
        - s_waitcnt vmcnt(1)
        + s_waitcnt vmcnt(0)
        ds_read_b32 v2, v0
        s_waitcnt lgkmcnt(0)
        {STORE}""", _plus(0), finding="LDS byte 0x0", options={"lds_dma": "out-of-order"}),
    _pair("LDS write, barrier without a wait", f"""
        ds_write_b32 v0, v0
        + s_waitcnt lgkmcnt(0)
        s_barrier
        v_xor_b32_e32 v7, 0x100, v0
        ds_read_b32 v2, v7
        s_waitcnt lgkmcnt(0)
        {STORE}""", lambda lane: 4 * (lane ^ 64), lanes=128),
    _pair("LDS read, barrier without a wait, overwritten", f"""
        ds_write_b32 v0, v0
        s_waitcnt lgkmcnt(0)
        s_barrier
        v_xor_b32_e32 v7, 0x100, v0
        ds_read_b32 v2, v7
        + s_waitcnt lgkmcnt(0)
        s_barrier
        v_cmp_gt_u32_e32 vcc, 0x100, v0
        s_cbranch_vccz second
        ds_write_b32 v0, v15
        s_waitcnt lgkmcnt(0)
        second:
        s_barrier
        s_waitcnt lgkmcnt(0)
        {STORE}""", lambda lane: 4 * (lane ^ 64), lanes=128),
    _pair("global store, no wait, read by the scalar cache", """
        v_mov_b32_e32 v2, 7
        global_store_dword v0, v2, s[8:9] offset:2048
        + s_waitcnt vmcnt(0)
        s_barrier
        s_load_dword s20, s[8:9], 0x800
        s_waitcnt lgkmcnt(0)
        v_mov_b32_e32 v2, s20
        global_store_dword v0, v2, s[8:9]""", _constant(7), lanes=128),
    _pair("lanes that a load writes are overwritten", f"""
        v_mov_b32_e32 v2, 1
        s_mov_b64 exec, 0xffff
        global_load_dword v2, v0, s[4:5]
        + s_not_b64 exec, exec
        v_mov_b32_e32 v2, 7
        s_mov_b64 exec, -1
        s_waitcnt vmcnt(0)
        - v_cmp_gt_u32_e32 vcc, 64, v0
        - v_cndmask_b32_e64 v2, 7, 7, vcc
        {STORE}""", lambda lane: torch.where(lane < 16, 1000 + lane, 7), finding="v2 is overwritten while"),
    _pair("lanes that a load writes are read", f"""
        v_mov_b32_e32 v1, 1
        v_mov_b32_e32 v2, 0
        s_mov_b32 exec_lo, 0xffff
        s_mov_b32 exec_hi, 0
        global_load_dword v1, v0, s[4:5]
        - s_nop 0
        + s_not_b64 exec, exec
        v_add_u32_e32 v2, 1, v1
        s_mov_b64 exec, -1
        s_waitcnt vmcnt(0)
        v_cmp_gt_u32_e32 vcc, 64, v0
        v_cndmask_b32_e32 v2, v2, v1, vcc
        - v_mov_b32_e32 v2, 0
        {STORE}""", lambda lane: torch.where(lane < 16, 1000 + lane, 2), finding="v1 is read while"),
    _pair("a matrix instruction reads lanes outside of EXEC", f"""
        v_mov_b32_e32 v1, 0
        v_mov_b32_e32 v3, 0
        s_mov_b64 exec, 0xffff
        global_load_dword v1, v0, s[4:5]
        + s_waitcnt vmcnt(0)
        s_not_b64 exec, exec
        v_mfma_f32_4x4x1_16b_f32 v[16:19], v1, v3, 0
        s_mov_b64 exec, -1
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, 5
        {STORE}""", _constant(5), value=False, finding="v1 is read while"),
    _pair("v_readlane of a lane that a load writes", f"""
        v_mov_b32_e32 v1, 6
        s_mov_b64 exec, 0xff
        global_load_dword v1, v0, s[4:5]
        s_mov_b64 exec, -1
        - v_readlane_b32 s20, v1, 7
        + v_readlane_b32 s20, v1, 8
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, s20
        - v_mov_b32_e32 v2, 0
        {STORE}""", _constant(6), finding="v1 is read while"),
    _pair("v_readlane of a lane that a register names", f"""
        v_mov_b32_e32 v1, 6
        s_mov_b32 s21, 0x47
        s_mov_b64 exec, 0xff
        global_load_dword v1, v0, s[4:5]
        s_mov_b64 exec, -1
        + s_mov_b32 s21, 0x49
        v_readlane_b32 s20, v1, s21
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, s20
        - v_mov_b32_e32 v2, 0
        {STORE}""", _constant(6), finding="v1 is read while"),
    _pair("v_readfirstlane where a load writes the lowest lane", f"""
        v_mov_b32_e32 v1, 6
        s_mov_b64 exec, 0xff
        global_load_dword v1, v0, s[4:5]
        - s_mov_b64 exec, 0xf80
        + s_mov_b64 exec, 0xf00
        v_readfirstlane_b32 s20, v1
        s_mov_b64 exec, -1
        s_waitcnt vmcnt(0)
        v_mov_b32_e32 v2, s20
        - v_mov_b32_e32 v2, 0
        {STORE}""", _constant(6), finding="v1 is read while"),
    _pair("v_writelane into a lane that a load writes", f"""
        v_mov_b32_e32 v2, 6
        s_mov_b64 exec, 0xff
        global_load_dword v2, v0, s[4:5]
        s_mov_b64 exec, -1
        - v_writelane_b32 v2, 5, 7
        + v_writelane_b32 v2, 5, 8
        s_waitcnt vmcnt(0)
        {STORE}""", lambda lane: torch.where(lane < 8, 1000 + lane, torch.where(lane == 8, 5, 6)),
        finding="v2 is overwritten while"),
    _pair("only one of two waves waits", f"""
        v_readfirstlane_b32 s20, v0
        global_load_dword v1, v0, s[4:5]
        s_cmp_lg_u32 s20, 0
        - s_cbranch_scc1 use
        s_waitcnt vmcnt(0)
        use:
        v_add_u32_e32 v2, 1, v1
        {STORE}""", _plus(1), finding="v1 is read while", lanes=128),
)  # fmt: skip
