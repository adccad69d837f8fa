"""Pairs of snippets: in the bad one an undefined register matters, in the good one it does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCALE = "v_lshlrev_b32_e32 v1, 2, v0"
STORE = "global_store_dword v1, {}, s[4:5]"


@dataclass(frozen=True)
class Pair:
    """``bad`` and ``good`` differ in a line or two. line: of the finding, counted from 0 in ``bad``, and what it names;
    lane: the first lane that shows it; lanes: how many do."""

    name: str
    bad: tuple[str, ...]
    good: tuple[str, ...]
    line: str
    register: str
    lane: int = 0
    lanes: int = 64
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _pair(name: str, text: str, register: str, lane: int = 0, lanes: int = 64, **options: Any) -> Pair:
    """Lines of ``text``: ``- line`` stands in the bad snippet only, ``+ line`` in the good one only; ``! line`` and
    ``-! line`` are where the bad one goes wrong."""
    bad, good, wrong = [], [], ""
    for raw in text.strip().splitlines():
        mark, _, rest = raw.strip().partition(" ")
        line = rest.strip() if set(mark) <= set("-+!") else raw.strip()
        marks = mark if set(mark) <= set("-+!") else ""
        if "+" not in marks:
            bad.append(line)
        if "-" not in marks:
            good.append(line)
        if "!" in marks:
            wrong = line
    return Pair(name, tuple(bad), tuple(good), wrong, register, lane, lanes, options)


PAIRS = (
    _pair("address", f"""
        {SCALE}
        + v_mov_b32_e32 v2, 0
        ! global_load_dword v3, v2, s[4:5]""", "v2"),
    _pair("stored data", f"""
        {SCALE}
        + v_mov_b32_e32 v2, v0
        ! {STORE.format("v2")}""", "v2"),
    _pair("a copy is traced to its origin", f"""
        {SCALE}
        + v_mov_b32_e32 v2, v0
        v_mov_b32_e32 v3, v2
        v_add_f32_e32 v4, 1.0, v3
        ! {STORE.format("v4")}""", "v4"),
    _pair("partial EXEC", f"""
        {SCALE}
        s_mov_b64 exec, 0xff
        v_mov_b32_e32 v2, v0
        - s_mov_b64 exec, 0x1ff
        ! {STORE.format("v2")}""", "v2", 8, 1),
    _pair("one branch of an if", f"""
        {SCALE}
        v_cmp_gt_u32_e32 vcc, 40, v0
        s_and_saveexec_b64 s[8:9], vcc
        v_mov_b32_e32 v2, v0
        + s_xor_b64 exec, exec, s[8:9]
        + v_mov_b32_e32 v2, 7
        s_or_b64 exec, exec, s[8:9]
        ! {STORE.format("v2")}""", "v2", 40, 24),
    _pair("lane outside of the condition of a select", f"""
        {SCALE}
        s_mov_b64 exec, 0xff
        v_mov_b32_e32 v2, v0
        s_mov_b64 exec, -1
        - v_cmp_gt_u32_e32 vcc, 9, v0
        + v_cmp_gt_u32_e32 vcc, 8, v0
        v_cndmask_b32_e32 v3, 5, v2, vcc
        ! {STORE.format("v3")}""", "v3", 8, 1),
    _pair("AGPR", f"""
        {SCALE}
        + v_accvgpr_write_b32 a1, v0
        v_accvgpr_mov_b32 a2, a1
        v_accvgpr_read_b32 v2, a2
        ! {STORE.format("v2")}""", "v2"),
    _pair("SGPR in an address", """
        + s_mov_b32 s10, 0
        - s_nop 0
        ! buffer_load_dword v2, off, s[4:7], s10""", "s10", 0, 1),
    _pair("SGPR of a scalar load", """
        + s_mov_b32 s10, 0
        - s_nop 0
        ! s_load_dword s11, s[4:5], s10""", "s10", 0, 1),
    _pair("half of a 64-bit address", """
        v_mov_b32_e32 v2, s4
        + v_mov_b32_e32 v3, s5
        ! global_load_dword v4, v[2:3], off""", "v3"),
    _pair("SCC", """
        - s_cmp_eq_u32 s11, 0
        + s_cmp_eq_u32 s2, 0
        ! s_cbranch_scc1 there
        s_nop 0
        there:""", "scc", 0, 1),
    _pair("SCC never set", """
        + s_cmp_eq_u32 s2, 0
        ! s_cbranch_scc0 there
        s_nop 0
        there:""", "scc", 0, 1),
    _pair("VCC decides a branch", """
        - v_cmp_eq_u32_e32 vcc, 3, v9
        + v_cmp_eq_u32_e32 vcc, 3, v0
        ! s_cbranch_vccz there
        s_nop 0
        there:""", "vcc_lo", 0, 1),
    _pair("VCC is not zero whatever the rest", """
        v_cmp_eq_u32_e32 vcc, 3, v9
        + s_bitset1_b32 vcc_lo, 0
        ! s_cbranch_vccz there
        s_nop 0
        there:""", "vcc_lo", 0, 1),
    _pair("EXEC", """
        - v_cmp_eq_u32_e32 vcc, 3, v9
        + v_cmp_eq_u32_e32 vcc, 3, v0
        ! s_and_saveexec_b64 s[8:9], vcc
        s_or_b64 exec, exec, s[8:9]""", "vcc_lo"),
    _pair("half of EXEC", """
        + s_mov_b32 s11, 3
        ! s_mov_b32 exec_lo, s11""", "s11", 0, 32),
    _pair("SCC of a result with a defined one", """
        - s_or_b32 s12, s11, 0
        + s_or_b32 s12, s11, 1
        ! s_cbranch_scc0 there
        s_nop 0
        there:""", "scc", 0, 1),
    _pair("EXEC by v_cmpx", """
        + v_mov_b32_e32 v9, v0
        ! v_cmpx_eq_u32_e32 vcc, 3, v9""", "v9"),
    _pair("lane mask merged where the lanes are", f"""
        {SCALE}
        v_cmp_gt_u32_e32 vcc, 16, v0
        s_and_saveexec_b64 s[8:9], vcc
        s_andn2_b64 s[10:11], s[10:11], exec
        s_or_b64 s[10:11], s[10:11], exec
        - s_or_b64 exec, exec, s[8:9]
        ! s_and_b64 exec, exec, s[10:11]""", "s10", 16, 48),
    _pair("m0 of a load into LDS", f"""
        {SCALE}
        + s_mov_b32 m0, 0
        ! global_load_lds_dword v1, s[4:5]""", "m0", 0, 1),
    _pair("half of a register", f"""
        {SCALE}
        global_load_short_d16 v2, v1, s[4:5]
        + global_load_short_d16_hi v2, v1, s[4:5]
        ! {STORE.format("v2")}""", "v2"),
    _pair("a half alone is stored", f"""
        {SCALE}
        global_load_short_d16 v2, v1, s[4:5]
        -! global_store_short_d16_hi v1, v2, s[4:5]
        + global_store_short v1, v2, s[4:5]""", "v2"),
    _pair("a half alone is used", f"""
        {SCALE}
        global_load_short_d16 v2, v1, s[4:5]
        - v_lshrrev_b32_e32 v3, 8, v2
        + v_and_b32_e32 v3, 0xffff, v2
        ! {STORE.format("v3")}""", "v3"),
    _pair("SDWA half", f"""
        {SCALE}
        global_load_short_d16 v2, v1, s[4:5]
        - v_cvt_f32_f16_sdwa v3, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1
        + v_cvt_f32_f16_sdwa v3, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_0
        ! {STORE.format("v3")}""", "v3"),
    _pair("two halves of fp8", f"""
        {SCALE}
        v_mov_b32_e32 v3, 1.0
        v_cvt_pk_fp8_f32 v2, v3, v3
        + v_cvt_pk_fp8_f32 v2, v3, v3 op_sel:[0,0,1]
        ! {STORE.format("v2")}""", "v2"),
    _pair("sums carry upwards only", f"""
        {SCALE}
        v_mov_b32_e32 v2, v1
        v_mad_u64_u32 v[8:9], s[10:11], v0, 4, v[2:3]
        - v_mov_b32_e32 v8, v9
        ! {STORE.format("v8")}""", "v8"),
    _pair("packed halves are apart", f"""
        {SCALE}
        v_mov_b32_e32 v2, 1.0
        - v_pk_mul_f32 v[8:9], v[2:3], v[2:3] op_sel_hi:[0,1]
        - v_mov_b32_e32 v8, v9
        + v_pk_mul_f32 v[8:9], v[2:3], v[2:3]
        ! {STORE.format("v8")}""", "v8"),
    _pair("MFMA accumulator", f"""
        {SCALE}
        v_mov_b32_e32 v4, v0
        v_mov_b32_e32 v5, v0
        - v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[4:5], v[12:15]
        + v_mfma_f32_16x16x16_f16 v[8:11], v[4:5], v[4:5], 0
        ! {STORE.format("v9")}""", "v9"),
    # row 5 of A is undefined: row 4 * (lane / 16) + register of the result, so register 1 in lanes 16 to 31
    _pair("row of an MFMA", f"""
        {SCALE}
        v_mov_b32_e32 v4, v0
        s_mov_b64 exec, 0xffffffdf
        v_mov_b32_e32 v5, v0
        s_mov_b64 exec, -1
        v_mov_b32_e32 v6, v0
        v_mov_b32_e32 v7, v0
        v_mov_b32_e32 v10, 0
        s_mov_b64 exec, 0xffffffff00000000
        v_mov_b32_e32 v5, v0
        s_mov_b64 exec, -1
        v_mfma_f32_16x16x16_f16 v[12:15], v[4:5], v[6:7], 0
        - v_mov_b32_e32 v14, v13
        ! {STORE.format("v14")}""", "v14", 16, 16),
    _pair("lane read by readlane", """
        s_mov_b64 exec, 0xff
        v_mov_b32_e32 v2, 0
        s_mov_b64 exec, -1
        - v_readlane_b32 s10, v2, 8
        + v_readlane_b32 s10, v2, 7
        ! s_load_dword s11, s[4:5], s10""", "s10", 0, 1),
    _pair("bpermute", f"""
        {SCALE}
        s_mov_b64 exec, 0xffffffff
        v_mov_b32_e32 v2, v0
        s_mov_b64 exec, -1
        + v_and_b32_e32 v1, 0x7c, v1
        ds_bpermute_b32 v3, v1, v2
        v_lshlrev_b32_e32 v1, 2, v0
        ! {STORE.format("v3")}""", "v3", 32, 32),
    _pair("DPP", f"""
        {SCALE}
        v_mov_b32_e32 v2, 1.0
        s_mov_b64 exec, 0xf
        v_mov_b32_e32 v3, 1.0
        s_mov_b64 exec, -1
        - v_add_f32_dpp v2, v3, v2 row_shr:1 row_mask:0xf bank_mask:0xf
        + v_add_f32_dpp v2, v3, v2 quad_perm:[0,1,2,3] row_mask:0x1 bank_mask:0x1
        ! {STORE.format("v2")}""", "v2", 5, 56),
    _pair("through LDS", f"""
        {SCALE}
        + v_mov_b32_e32 v2, v0
        ds_write_b32 v1, v2
        ds_read_b32 v3, v1
        ! {STORE.format("v3")}""", "v3"),
    _pair("through LDS and back to defined", f"""
        {SCALE}
        ds_write_b32 v1, v2
        + ds_write_b32 v1, v0
        ds_read_b32 v3, v1
        ! {STORE.format("v3")}""", "v3"),
    _pair("scratch", f"""
        {SCALE}
        + scratch_store_dword off, v0, off offset:8
        scratch_load_dword v2, off, off offset:8
        ! {STORE.format("v2")}""", "v2", scratch=16),
    _pair("spilled and reloaded", f"""
        {SCALE}
        + v_mov_b32_e32 v2, v0
        scratch_store_dword off, v2, off offset:8
        scratch_load_dword v3, off, off offset:8
        ! {STORE.format("v3")}""", "v3", scratch=16),
    _pair("operand of an atomic", f"""
        {SCALE}
        + v_mov_b32_e32 v2, v0
        ! global_atomic_add v1, v2, s[4:5]""", "v2"),
    _pair("loop", f"""
        {SCALE}
        s_mov_b32 s10, 3
        again:
        s_cmp_eq_u32 s10, 3
        s_cbranch_scc0 later
        + v_mov_b32_e32 v2, v0
        later:
        v_add_u32_e32 v2, 1, v2
        s_sub_u32 s10, s10, 1
        s_cmp_lg_u32 s10, 0
        s_cbranch_scc1 again
        ! {STORE.format("v2")}""", "v2"),
    _pair("divergent loop", f"""
        {SCALE}
        v_and_b32_e32 v3, 3, v0
        s_mov_b64 s[10:11], 0
        + v_mov_b32_e32 v2, 0
        again:
        v_cmp_eq_u32_e32 vcc, 0, v3
        s_or_b64 s[10:11], vcc, s[10:11]
        s_andn2_b64 exec, exec, s[10:11]
        s_cbranch_execz out
        v_mov_b32_e32 v2, v3
        v_add_u32_e32 v3, -1, v3
        s_branch again
        out:
        s_mov_b64 exec, -1
        ! {STORE.format("v2")}""", "v2", 0, 16),
    _pair("a clamped lane stores nothing", f"""
        {SCALE}
        s_mov_b64 exec, 0xff
        v_mov_b32_e32 v2, v0
        s_mov_b64 exec, -1
        - v_cmp_gt_u32_e32 vcc, 16, v0
        + v_cmp_gt_u32_e32 vcc, 8, v0
        v_mov_b32_e32 v3, 0x7fffffff
        v_cndmask_b32_e32 v3, v3, v1, vcc
        s_movk_i32 s6, 0x800
        ! buffer_store_dword v2, v3, s[4:7], 0 offen""", "v2", 8, 8),
)  # fmt: skip

#: Undefined registers that are moved about and end nowhere.
SILENT = {
    "copied and never used": (SCALE, "v_mov_b32_e32 v2, v3", "v_mov_b64_e32 v[4:5], v[2:3]", "v_swap_b32 v4, v6"),
    "computed and never used": (SCALE, "v_add_f32_e32 v2, v3, v4", "v_cmp_eq_f32_e32 vcc, v2, v3"),
    "multiplied and never used": ("v_mfma_f32_16x16x16_f16 v[8:11], v[2:3], v[4:5], v[12:15]",),
    "scalars": ("s_add_u32 s12, s13, s14", "s_and_b64 s[12:13], s[14:15], vcc", "s_cselect_b32 s16, s17, s18"),
    "xor with itself": (SCALE, "v_xor_b32_e32 v2, v2, v2", STORE.format("v2")),
    "and with 0": (SCALE, "v_and_b32_e32 v2, 0, v2", STORE.format("v2")),
    "no lane is active": (SCALE, "s_mov_b64 exec, 0", "global_load_dword v2, v9, s[4:5]", STORE.format("v8")),
    "byte picked by v_perm": (
        SCALE, "global_load_ubyte_d16 v2, v1, s[4:5]", "v_mov_b32_e32 v3, 0xc0c0c00", "v_perm_b32 v4, v2, v2, v3",
        STORE.format("v4"),
    ),
}  # fmt: skip
