"""How undefined bits go through an instruction: one rule for each form.

* moves and bit operations run on several fillings of the undefined bits; what differs in the results is undefined;
* arithmetic runs on the shadow registers, through the same binder (which picks halves, bytes and lanes), with semantics
  that make a result undefined where any source is;
* of a matrix product, the elements that an undefined row of A, column of B or element of C goes into are undefined;
* branches, EXEC and MODE must not depend on anything undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine.bind import BINDERS
from ..machine.matrix_layout import accumulator_to_registers, broadcast_blocks
from ..machine.matrix_operands import MatrixSource
from ..machine.transfer import SCALAR_KEYS
from ..machine.types import IMPLICIT, TYPES
from ..machine.waves import FloatMode, Waves
from ..program.operands import EXEC, Operand
from .effects import EXEC_KEYS, M0_KEYS, SCC_KEY, operand_keys
from .registers import RegisterState, Rule, Watch, matter
from .registers_fillings import cause_of, fillings, row_of
from .registers_memory import MEMORY_RULES

U32 = np.uint32
Run = Callable[[Waves], Any]
_UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


# -- moves ---------------------------------------------------------------------------------------------------------
def moved(state: RegisterState, watch: Watch, run: Run) -> Any:
    """Moves and bit operations."""
    w, writes = state.w, watch.effect.writes
    cause = cause_of(state, watch)

    def compute() -> list[NDArray[Any]]:
        watch.inner(w)
        return [row_of(w, key).copy() for key in writes]

    found = dict(zip(writes, fillings(state, watch, compute), strict=True))
    result = run(w)
    _decide_scc(state, found)
    for key, bits in found.items():
        if key not in EXEC_KEYS:
            row_of(state.shadow, key)[...] = bits
    if watch.effect.writes_exec:
        none = np.zeros(w.count, U32)
        _exec_decided(state, watch, [state.chosen(found.get(key, none)) for key in EXEC_KEYS])
    state.refresh([key for key in writes if key not in EXEC_KEYS], cause)
    return result


def _decide_scc(state: RegisterState, found: dict[int, NDArray[Any]]) -> None:
    """SCC says whether the result is 0: known as soon as one defined bit is set."""
    results = [key for key in EXEC_KEYS if key in found] or [key for key in found if key != SCC_KEY]
    if SCC_KEY not in found or not results:
        return
    undefined = np.zeros(state.w.count, bool)
    nonzero = np.zeros(state.w.count, bool)
    for key in results:
        undefined |= found[key] != 0
        nonzero |= (row_of(state.w, key) & ~found[key]) != 0
    here = slice(None) if state.w.sel is None else state.w.sel
    found[SCC_KEY][here] = (undefined & ~nonzero)[here]


def _exec_decided(state: RegisterState, watch: Watch, halves: Sequence[NDArray[Any]]) -> None:
    """``halves``: undefined bits of the new EXEC, uint32 [n] each."""
    lanes = np.arange(32, dtype=U32)
    where = np.concatenate([(half[:, None] >> lanes) & U32(1) != 0 for half in halves], axis=1)
    if where.any():
        bad = [key for key in watch.effect.reads if key in state.dirty]
        if bad:
            state.report(watch, bad[0], where, "decides which lanes are active")
            state.forgive(bad)


# -- arithmetic ------------------------------------------------------------------------------------------------------
def _any_undefined(types: tuple[str, ...], carries: bool) -> Callable[..., Any]:
    """Semantics on shadows: a result is all undefined where any source has an undefined bit.

    ``carries``: of the first result only the bits from the lowest undefined one on, as in sums and low products.
    """
    dtypes = [np.dtype(np.bool_ if name == "scc" else np.uint64 if name in IMPLICIT else TYPES[name].dtype)
              for name in types]  # fmt: skip

    def smear(*sources: Any) -> Any:
        bits = [_as_uint(source) for source in sources]
        bad: Any = np.False_
        for x in bits:
            bad = bad | (x != 0)
        results = [_spread(np.asarray(bad), dtype) for dtype in dtypes]
        if carries:
            results[0] = _upwards(bits, dtypes[0])
        return results[0] if len(results) == 1 else tuple(results)

    return smear


def _as_uint(source: Any) -> NDArray[Any]:
    x = np.ascontiguousarray(source)
    return x if x.dtype == np.bool_ else x.view(_UINT[x.itemsize])


def _upwards(bits: list[NDArray[Any]], dtype: np.dtype[Any]) -> Any:
    """Every bit from the lowest one on that any of ``bits`` has."""
    uint = _UINT[dtype.itemsize]
    total: Any = uint(0)
    for x in bits:
        # a carry or borrow comes in at bit 0
        total = total | x.astype(uint)
    return (total | (~total + uint(1))).view(dtype)


def _spread(bad: NDArray[np.bool_], dtype: np.dtype[Any]) -> Any:
    if dtype == np.bool_:
        return bad
    uint = _UINT[dtype.itemsize]
    return np.negative(bad.astype(uint)).view(dtype)


def _bare(operand: Operand) -> Operand:
    """Constants are defined; signs change nothing."""
    if operand.is_register or operand.kind == "off" or (operand.kind == "cond" and operand.name == "scc"):
        return replace(operand, neg=False, abs=False, sext=False)
    return Operand("int", value=0)


_DROPPED = ("clamp", "mul", "div", "neg_lo", "neg_hi", "bitop3")
_KEPT = ("dst_is_source", "keep_half", "compare", "quads", "half")


def _twin(watch: Watch) -> Callable[[Waves], Any]:
    entry, inst = watch.entry, watch.inst
    options = MappingProxyType({k: v for k, v in entry.options.items() if k in _KEPT})
    carries = inst.mnemonic.startswith(_CARRYING) and not inst.modifiers.get("clamp")
    entry = replace(entry, fn=_any_undefined(entry.dst, carries), options=options)
    modifiers = {k: v for k, v in inst.modifiers.items() if k not in _DROPPED}
    operands = tuple(o if i == 0 else _bare(o) for i, o in enumerate(inst.operands))
    ctx = replace(watch.ctx, mode=FloatMode())
    return BINDERS[entry.form](entry, replace(inst, operands=operands, modifiers=modifiers), ctx)


def computed(state: RegisterState, watch: Watch, run: Run) -> Any:
    """Arithmetic. With defined sources only the old contents of the destination are looked at."""
    cause = cause_of(state, watch)
    if not cause:
        return moved(state, watch, run)
    if watch.shadow is None:
        watch.shadow = _twin(watch)
    state.settle((*watch.effect.reads, *watch.effect.writes))
    watch.shadow(state.follow())
    result = run(state.w)
    state.refresh(watch.effect.writes, cause)
    return result


def spoiled(state: RegisterState, watch: Watch, run: Run) -> Any:
    """Everything else: results are undefined in each lane in which any source is."""
    cause = cause_of(state, watch)
    if not cause:
        return moved(state, watch, run)
    w, effect = state.w, watch.effect
    state.settle((*effect.reads, *effect.writes))
    bad: Any = np.zeros((w.n, 64), bool)
    for key in effect.reads:
        if key in state.dirty:
            bits = state.bits(key) != 0
            bad = bad | (bits if bits.ndim == 2 else bits[:, None])
    result = run(w)
    shadow = state.follow()
    for key in effect.writes:
        if key >= SCALAR_KEYS:
            values: Any = bad.any(axis=1)
            row = row_of(shadow, key)
            row[slice(None) if w.sel is None else w.sel] = values if key == SCC_KEY else _spread(values, row.dtype)
        else:
            kept = U32(0) if effect.total else state.bits(key)
            shadow.vput(key, _spread(bad, np.dtype(U32)) | kept)
    state.refresh(effect.writes, cause)
    return result


# -- matrices --------------------------------------------------------------------------------------------------------
def multiplied(state: RegisterState, watch: Watch, run: Run) -> Any:
    """MFMA and SMFMAC, which read and write every lane."""
    cause, w, entry, inst = cause_of(state, watch), state.w, watch.entry, watch.inst
    dst, a, b, *rest = inst.operands
    c = dst if entry.form == "smfmac" else rest.pop(0)
    cbsz, abid = (int(inst.modifiers.get(name, 0)) for name in ("cbsz", "abid"))
    rows, columns = (_undefined_rows(state, watch, operand, i) for i, operand in enumerate((a, b)))
    if entry.form == "mfma":
        rows = broadcast_blocks(rows, cbsz, abid)
    # indices of a sparse A and scales may go anywhere in the product
    spoiled_waves = np.zeros(w.n, bool)
    for operand in rest:
        for key in operand_keys(operand, w.agpr_base):
            if key in state.dirty:
                spoiled_waves |= (state.bits(key).reshape(w.n, -1) != 0).any(axis=1)
    product = rows[:, :, :, None] | columns[:, :, None, :] | spoiled_waves[:, None, None, None]
    wide = entry.options["result"] == "f64"
    parts = [part for part in accumulator_to_registers(product, wide) for _ in range(2 if wide else 1)]
    c_keys, shadow = operand_keys(c, w.agpr_base), state.follow()
    old = [state.bits(key) != 0 for key in c_keys] or [np.zeros((w.n, 64), bool)] * len(parts)
    if wide:
        old = [low | high for low, high in zip(old[0::2], old[1::2], strict=True) for _ in range(2)]
    values = [_spread(part | before, np.dtype(U32)) for part, before in zip(parts, old, strict=True)]
    result = run(w)
    writes = operand_keys(dst, w.agpr_base)
    state.settle(writes)
    for key, value in zip(writes, values, strict=True):
        shadow.V[key][slice(None) if w.sel is None else w.sel] = value
    state.refresh(writes, cause)
    return result


def _undefined_rows(state: RegisterState, watch: Watch, operand: Operand, position: int) -> NDArray[np.bool_]:
    """Rows of A or columns of B with an undefined element: bool [n, blocks, size]."""
    entry, inst, w = watch.entry, watch.inst, state.w
    o = entry.options
    keys = operand_keys(operand, w.agpr_base)
    words = np.zeros((len(keys), w.n, 64), U32)
    for i, key in enumerate(keys):
        if key in state.dirty:
            # whole bytes, so that no element's rounding hides a bit
            octets = np.ascontiguousarray(state.bits(key)).view(np.uint8) != 0
            words[i] = np.negative(octets.view(np.uint8)).view(U32)
    if not words.any():
        return np.zeros((w.n, o["blocks"], o["size"]), bool)
    kind, depth = o[("a", "b")[position]] if entry.form != "mfma_f8f6f4" else "", o["depth"]
    if entry.form == "mfma_f8f6f4":
        kind = f"f8f6f4:{int(inst.modifiers.get(('cbsz', 'blgp')[position], 0))}"
    elif entry.form == "smfmac" and position == 0:
        depth //= 2
    blgp = int(inst.modifiers.get("blgp", 0)) if entry.form == "mfma" and position == 1 and kind != "f64" else 0
    first = replace(operand, kind="v", index=0)
    source = MatrixSource(inst, first, kind, (o["size"], depth, o["blocks"]), watch.ctx, blgp)
    stand_in: Any = SimpleNamespace(file=words, sel=None, n=w.n, extra={})
    return (source.matrix(stand_in, np.float64) != 0).any(axis=2)


# -- what must not be undefined --------------------------------------------------------------------------------------
def decides(role: str) -> Rule:
    """A rule for instructions whose sources must be defined."""

    def rule(state: RegisterState, watch: Watch, run: Run) -> Any:
        matter(state, watch, state.undefined(watch.effect.reads, state.w.sget64(EXEC)), role)
        return state.step(watch, run, spoiled)

    return rule


def branched(state: RegisterState, watch: Watch, run: Run) -> Any:
    """A branch on VCC being zero is decided as soon as one defined bit is set."""
    if watch.inst.mnemonic.startswith("s_cbranch_vcc"):
        keys = watch.effect.reads
        known = np.zeros(state.w.n, bool)
        for key in keys:
            known |= (state.chosen(row_of(state.w, key)) & ~state.bits(key)) != 0
        if (known | ~np.logical_or(*(state.bits(key) != 0 for key in keys))).all():
            return run(state.w)
    return decides("decides a branch")(state, watch, run)


def indexed(state: RegisterState, watch: Watch, run: Run) -> Any:
    """A move under VGPR indexing mode: M0[7:0] must be defined, the rest of M0 has no part in it."""
    if M0_KEYS[0] in state.dirty and (state.bits(M0_KEYS[0]) & U32(0xFF)).any():
        matter(state, watch, M0_KEYS, "decides which register is moved")
    return state.step(watch, run, moved)


_STRUCTURAL = frozenset(
    f"v_{name}" for name in (
        "mov_b32", "mov_b64", "accvgpr_read_b32", "accvgpr_write_b32", "accvgpr_mov_b32", "cndmask_b32", "and_b32",
        "or_b32", "xor_b32", "xnor_b32", "not_b32", "and_or_b32", "or3_b32", "bfi_b32", "lshlrev_b32", "lshrrev_b32",
        "ashrrev_i32", "lshlrev_b64", "lshrrev_b64", "ashrrev_i64", "lshlrev_b16", "lshrrev_b16", "ashrrev_i16",
        "lshl_or_b32", "bfe_u32", "bfe_i32", "bfrev_b32", "alignbit_b32", "alignbyte_b32", "perm_b32", "pack_b32_f16",
        "cvt_f32_ubyte0", "cvt_f32_ubyte1", "cvt_f32_ubyte2", "cvt_f32_ubyte3", "bitop3_b32", "bitop3_b16",
    )
)  # fmt: skip
_SCALAR_STRUCTURAL = (
    "s_mov", "s_not", "s_brev", "s_cselect", "s_cmov", "s_lshl_", "s_lshr_", "s_ashr", "s_and", "s_or", "s_xor",
    "s_nand", "s_nor", "s_xnor", "s_bfe", "s_pack", "s_sext", "s_bitset", "s_wqm", "s_quadmask", "s_bitreplicate",
    "s_set_gpr_idx",
)  # fmt: skip
#: Integer operations in which a bit of the result depends on no higher bit of a source.
_CARRYING = (
    *(f"v_{op}_{kind}" for op in ("add", "sub", "subrev") for kind in ("u32", "i32", "u16", "i16", "co_u32")),
    "v_addc_co_u32", "v_subb_co_u32", "v_subbrev_co_u32", "v_add3_u32", "v_xad_u32", "v_mul_lo_", "v_mad_u64_u32",
    "v_mad_i64_i32", "v_mad_u16", "v_mad_i16", "v_mad_legacy_", "v_mad_u32_u16", "v_lshl_add_u", "v_add_lshl_u32",
    "v_pk_add_u16", "v_pk_add_i16", "v_pk_sub_", "v_pk_mul_lo_u16", "v_pk_mad_",
    "s_add_", "s_sub_", "s_addc_u32", "s_subb_u32", "s_mul_i32", "s_addk_i32", "s_mulk_i32", "s_lshl1_add",
    "s_lshl2_add", "s_lshl3_add", "s_lshl4_add",
)  # fmt: skip
_BY_FORM: dict[str, Rule] = {
    **dict.fromkeys(("readlane", "writelane", "swap", "permlane_swap", "packed_move"), moved),
    **dict.fromkeys(("salu", "valu", "dot", "dot_accumulate", "byte_convert", "packed16", "packed32"), computed),
    **dict.fromkeys(("mfma", "mfma_f8f6f4", "smfmac"), multiplied),
    "branch": branched,
    "indexed_move": indexed,
    "jump": decides("decides where control goes"),
    "mode": decides("goes into a hardware register"),
    **MEMORY_RULES,
}


def rule_of(watch: Watch) -> Rule:
    """How undefined registers go through this instruction."""
    name, form = watch.inst.mnemonic, watch.entry.form
    if name in _STRUCTURAL or (form == "salu" and name.startswith(_SCALAR_STRUCTURAL)):
        return moved
    if watch.effect.writes_exec:
        return decides("decides which lanes are active")
    if form == "mix" and watch.effect.total:
        return computed
    return _BY_FORM.get(form, spoiled)
