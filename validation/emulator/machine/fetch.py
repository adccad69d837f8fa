"""Closures that read operands from, and write results to, the wave state. Built once per instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import AsmError, UnsupportedError
from ..program.operands import VCC, Operand
from ..program.program import Instruction
from .types import TYPES, U16, U32, U64, ValueType, constant_bits
from .waves import BindContext, Waves

Fetch = Callable[[Waves], Any]
Store = Callable[[Waves, Any], None]
_SIGN: dict[int, Any] = {16: U16(0x8000), 32: U32(0x80000000), 64: U64(1 << 63)}
_UINT: dict[int, Any] = {16: U16, 32: U32, 64: U64}


def wrong_width(inst: Instruction, operand: Operand, kind: ValueType) -> AsmError:
    return AsmError(
        f"operand {operand} is {operand.count} dwords wide, {inst.mnemonic} takes {kind.dwords} ({kind.name})",
        inst.line_number,
        inst.text,
    )


def register_number(operand: Operand, ctx: BindContext) -> int:
    """Row of the vector register file: AGPRs stand behind the VGPRs."""
    return operand.index + (ctx.agpr_base if operand.kind == "a" else 0)


def check_width(inst: Instruction, operand: Operand, kind: ValueType) -> None:
    if operand.is_register and operand.count != kind.dwords:
        raise wrong_width(inst, operand, kind)


# -- scalar operands: values of shape [n] ---------------------------------------------------------------------------
def scalar_source(inst: Instruction, operand: Operand, type_name: str, ctx: BindContext) -> Fetch:
    """Value [n] (or a NumPy scalar for constants) of a scalar operand."""
    kind = TYPES[type_name]
    dtype, r = kind.dtype, operand.index
    if operand.kind == "s":
        check_width(inst, operand, kind)
        if kind.dwords == 2:
            return (lambda w: w.sget64(r)) if dtype is U64 else (lambda w: w.sget64(r).view(dtype))
        if kind.bits == 16:
            return lambda w: (w.sget(r) & U32(0xFFFF)).astype(U16).view(dtype)
        return (lambda w: w.sget(r)) if dtype is U32 else (lambda w: w.sget(r).view(dtype))
    if operand.kind in ("int", "float"):
        bits = constant_bits(operand, kind)
        word = _UINT[kind.bits](bits & ((1 << kind.bits) - 1)).view(dtype)
        return lambda w: word
    if operand.kind == "symbol" or (operand.kind == "label" and operand.name not in ctx.labels):
        value = U32(ctx.symbol_address(inst, operand.name)).view(dtype)
        return lambda w: value
    if operand.kind == "cond":
        return condition_source(operand.name, dtype)
    raise AsmError(f"operand {operand} cannot be a scalar source of {inst.mnemonic}", inst.line_number, inst.text)


def condition_source(name: str, dtype: type) -> Fetch:
    """``scc``, ``vccz`` or ``execz`` as 0/1 values [n]."""
    if name == "scc":
        return lambda w: w.scc_get().astype(dtype)
    r = VCC if name == "vccz" else 126
    return lambda w: (w.sget64(r) == 0).astype(dtype)


def implicit_source(name: str) -> Fetch:
    """Operands that the text does not show. ``vcc``, ``exec``: uint64 [n]; ``vccmask``: bool [n, 64]; ``scc``:
    bool [n]; ``m0``: uint32 [n]."""
    table: dict[str, Fetch] = {
        "scc": lambda w: w.scc_get(),
        "vcc": lambda w: w.sget64(VCC),
        "vccmask": lambda w: w.mask_get(VCC),
        "exec": lambda w: w.sget64(126),
        "m0": lambda w: w.sget(124),
    }
    return table[name]


def scalar_store(inst: Instruction, operand: Operand, type_name: str) -> Store:
    kind = TYPES[type_name]
    if operand.kind != "s":
        raise AsmError(f"{operand} cannot be the scalar result of {inst.mnemonic}", inst.line_number, inst.text)
    check_width(inst, operand, kind)
    r, dtype = operand.index, kind.dtype
    if kind.dwords == 2:
        if dtype is U64:
            return lambda w, value: w.sput64(r, value)
        return lambda w, value: w.sput64(r, np.asarray(value, dtype).view(U64))
    if dtype is U32:
        return lambda w, value: w.sput(r, value)
    if kind.bits == 16:
        return lambda w, value: w.sput(r, np.asarray(value, dtype).view(U16).astype(U32))
    return lambda w, value: w.sput(r, np.asarray(value, dtype).view(U32))


# -- vector operands: values that broadcast to [n, 64] ----------------------------------------------------------------
def vector_source(
    inst: Instruction, operand: Operand, type_name: str, ctx: BindContext, high_half: bool = False
) -> Fetch:
    """Value broadcastable to [n, 64] of a VALU source, source modifiers applied.

    ``high_half`` picks bits 31:16 of the register for a 16-bit type (op_sel).
    """
    if type_name == "m64":
        return mask_source(inst, operand)
    kind = TYPES[type_name]
    plain = _vector_plain(inst, operand, kind, ctx, high_half)
    if not (operand.neg or operand.abs):
        return plain
    if not kind.is_float:
        raise AsmError(f"{operand}: {inst.mnemonic} has no float source here", inst.line_number, inst.text)
    sign, uint, dtype = _SIGN[kind.bits], _UINT[kind.bits], kind.dtype
    clear = ~sign if operand.abs else ~uint(0)
    flip = sign if operand.neg else uint(0)
    return lambda w: ((plain(w).view(uint) & clear) ^ flip).view(dtype)


def _vector_plain(inst: Instruction, operand: Operand, kind: ValueType, ctx: BindContext, high_half: bool) -> Fetch:
    dtype = kind.dtype
    if operand.kind in ("v", "a"):
        check_width(inst, operand, kind)
        r = register_number(operand, ctx)
        if kind.dwords == 2:
            return _vector_pair(r, dtype)
        if kind.bits == 16:
            return _half(lambda w: w.vget(r), dtype, high_half)
        return lambda w: w.rows[dtype][r] if w.sel is None else w.rows[dtype][r][w.sel]
    if operand.kind == "s" and kind.bits == 16:
        check_width(inst, operand, kind)
        r = operand.index
        return _half(lambda w: w.sget(r)[:, None], dtype, high_half)
    scalar = scalar_source(inst, operand, kind.name, ctx)
    if operand.kind in ("int", "float", "symbol", "label"):
        if high_half and operand.kind == "float":
            return lambda w: kind.dtype(0)
        return scalar
    if operand.kind == "s" and kind.dwords == 1:
        return _spread(operand.index, dtype)
    return lambda w: scalar(w)[:, None]


def _spread(r: int, dtype: type) -> Fetch:
    """A scalar register as source of a vector instruction: one value where all waves hold the same, else [n, 1]."""

    def fetch(w: Waves) -> Any:
        value = w.uniform(r)
        return (w.sget(r)[:, None] if value is None else value).view(dtype)

    return fetch


def _half(word: Fetch, dtype: type, high: bool) -> Fetch:
    if high:
        return lambda w: (word(w) >> U32(16)).astype(U16).view(dtype)
    return lambda w: word(w).astype(U16).view(dtype)


def _vector_pair(r: int, dtype: type) -> Fetch:
    def pair(w: Waves) -> Any:
        v = np.empty((w.n, 64, 2), U32)
        v[..., 0], v[..., 1] = w.vget(r), w.vget(r + 1)
        return v.view(dtype)[..., 0]

    return pair


def mask_source(inst: Instruction, operand: Operand) -> Fetch:
    """A lane mask as bool [n, 64]."""
    if operand.kind == "s" and operand.count == 2:
        r = operand.index
        return lambda w: w.mask_get(r)
    if operand.kind == "int":
        bits = U64(int(operand.value) & 0xFFFFFFFFFFFFFFFF)
        lanes = ((bits >> np.arange(64, dtype=U64)) & U64(1)) != 0
        return lambda w: lanes[None, :]
    raise AsmError(f"{operand} is no lane mask", inst.line_number, inst.text)


def vector_store(
    inst: Instruction, operand: Operand, type_name: str, ctx: BindContext, high_half: bool = False, keep: bool = False
) -> Store:
    """Write a result to the active lanes.

    For 16-bit types ``keep`` preserves the other half of the register, else it becomes zero.
    """
    if type_name == "m64":
        if operand.kind != "s" or operand.count != 2:
            raise AsmError(f"{operand} is no lane mask", inst.line_number, inst.text)
        r = operand.index
        return lambda w, value: w.mask_put(r, value)
    kind = TYPES[type_name]
    if operand.kind not in ("v", "a"):
        raise AsmError(f"{operand} cannot be the result of {inst.mnemonic}", inst.line_number, inst.text)
    check_width(inst, operand, kind)
    r, dtype = register_number(operand, ctx), kind.dtype
    if kind.dwords == 2:
        return _pair_store(r, dtype)
    if kind.bits == 16:
        return _half_store(r, dtype, high_half, keep)
    if dtype is U32:
        return lambda w, value: w.vput(r, value)
    return lambda w, value: w.vput(r, np.asarray(value, dtype).view(U32))


def row_of(operand: Operand, type_name: str, ctx: BindContext) -> int | None:
    """The vector register that holds the operand whole and as it stands, or None."""
    kind = TYPES[type_name]
    if operand.kind not in ("v", "a") or kind.bits != 32 or operand.neg or operand.abs:
        return None
    return register_number(operand, ctx)


def _pair_store(r: int, dtype: type) -> Store:
    def put(w: Waves, value: Any) -> None:
        bits = np.ascontiguousarray(value, dtype).view(U64)
        w.vput(r, bits.astype(U32))
        w.vput(r + 1, (bits >> U64(32)).astype(U32))

    return put


def _half_store(r: int, dtype: type, high: bool, keep: bool) -> Store:
    def put(w: Waves, value: Any) -> None:
        word = np.asarray(value, dtype).view(U16).astype(U32)
        if high:
            word = word << U32(16)
        if high or keep:
            word = word | (w.vget(r) & U32(0x0000FFFF if high else 0xFFFF0000))
        w.vput(r, word)

    return put


def reject_modifiers(inst: Instruction, accepted: frozenset[str] | set[str]) -> None:
    """UnsupportedError for any modifier that the binder does not implement."""
    unknown = sorted(set(inst.modifiers) - set(accepted))
    if unknown:
        raise UnsupportedError(f"modifier {', '.join(unknown)} on {inst.mnemonic}", inst.line_number, inst.text)


def operand_count(inst: Instruction, expected: int) -> None:
    if len(inst.operands) != expected:
        raise AsmError(
            f"{inst.mnemonic} takes {expected} operands, got {len(inst.operands)}", inst.line_number, inst.text
        )
