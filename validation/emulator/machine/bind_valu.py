"""Binder of vector ALU instructions (VOP1, VOP2, VOP3, VOPC) with op_sel, clamp, omod, SDWA and DPP."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..numerics.into import sources_in_out
from ..program.operands import VCC, Operand
from ..program.program import Instruction
from .fetch import Fetch, Store, implicit_source, reject_modifiers, row_of, vector_source, vector_store
from .lane_routing import DPP_MODIFIERS, Route, dpp_route
from .result import finish_result
from .sub_dword import SDWA_MODIFIERS, sdwa_source, sdwa_store
from .types import IMPLICIT, TYPES
from .waves import BindContext, Waves

_ACCEPTED = {"clamp", "mul", "div", "op_sel"} | SDWA_MODIFIERS | DPP_MODIFIERS
_VCC = Operand("s", VCC, 2)


def _op_sel(inst: Instruction, position: int) -> bool:
    bits = inst.modifiers.get("op_sel", ())
    return position < len(bits) and bool(bits[position])


def _shown(names: tuple[str, ...]) -> list[str]:
    return [t for t in names if t not in IMPLICIT]


def _split_quads(operands: tuple[Operand, ...]) -> list[Operand]:
    """Operands of four registers as four operands."""
    parts: list[Operand] = []
    for operand in operands:
        wide = operand.is_register and operand.count == 4
        parts += [replace(operand, index=operand.index + i, count=1) for i in range(4)] if wide else [operand]
    return parts


def _match_operands(entry: Entry, inst: Instruction) -> list[Operand]:
    """Operands in table order. The e32 spelling of carry and compare instructions may leave ``vcc`` out."""
    shown = _shown((*entry.dst, *entry.src))
    operands = _split_quads(inst.operands) if entry.options.get("quads") else list(inst.operands)
    for position, name in enumerate(shown):
        if name == "m64" and len(operands) < len(shown):
            operands.insert(position, _VCC)
    if len(operands) != len(shown):
        raise AsmError(f"{inst.mnemonic} takes {len(shown)} operands, got {len(operands)}", inst.line_number, inst.text)
    return operands


def _check_op_sel(entry: Entry, inst: Instruction) -> None:
    """op_sel picks halves of 16-bit operands: sources in order, then the result. On others its meaning is unknown."""
    kinds = [*_shown(entry.src), entry.dst[0]]
    for position, bit in enumerate(inst.modifiers.get("op_sel", ())):
        if bit and (position >= len(kinds) or TYPES[kinds[position]].bits != 16):
            raise UnsupportedError(f"op_sel bit {position} on {inst.mnemonic}", inst.line_number, inst.text)


def _check_constant(inst: Instruction, operand: Operand, name: str, high: bool) -> None:
    if operand.kind == "float" and TYPES[name].bits == 16 and not TYPES[name].is_float:
        raise UnsupportedError("float constant as a 16-bit integer", inst.line_number, inst.text)
    if high and operand.kind in ("int", "float"):
        raise UnsupportedError("upper half of a constant (op_sel)", inst.line_number, inst.text)


def _route(entry: Entry, inst: Instruction, first_source: Operand) -> Route:
    if entry.options.get("compare"):
        raise AsmError("gfx9 compares have no DPP form", inst.line_number, inst.text)
    if first_source.kind != "v":
        raise AsmError(f"DPP reads source 0 from a VGPR, not from {first_source}", inst.line_number, inst.text)
    wide = any(TYPES[t].dwords == 2 and t != "m64" for t in _shown((*entry.dst, *entry.src)))
    return dpp_route(inst, wide)


def bind_valu(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(*sources) -> result`` or a tuple, one value per destination.

    Options:
        dst_is_source: the destination's old value is the last source (v_fmac, v_mac, v_dot2c).
        keep_half: a 16-bit result leaves the other half of the register as it was (else it becomes zero).
        saturate: variant of ``fn`` for integer clamp.
        rounds: ``fn`` takes ``round_mode=``; float results obey the MODE register.
        compare: VOPC. writes_exec: compare that also sets EXEC (v_cmpx_*).
        keywords: modifier name -> default; passed to ``fn`` as keyword arguments and not interpreted here.
        quads: operands of four registers are given to ``fn`` (and returned by it) as four.
    """
    keywords = entry.options.get("keywords", {})
    reject_modifiers(inst, _ACCEPTED | keywords.keys())
    matched = _match_operands(entry, inst)
    operands = iter(matched)
    sdwa = inst.encoding == "sdwa" or bool(SDWA_MODIFIERS & inst.modifiers.keys())
    dpp = bool(DPP_MODIFIERS & inst.modifiers.keys())
    if sdwa and dpp:
        raise AsmError("SDWA and DPP cannot be combined", inst.line_number, inst.text)
    halves = "op_sel" not in keywords
    if halves:
        _check_op_sel(entry, inst)
    stores: list[Store] = []
    high = halves and _op_sel(inst, len(_shown(entry.src)))
    for name in entry.dst:
        if name in IMPLICIT:
            raise UnsupportedError(f"implicit result {name}", inst.line_number, inst.text)
        operand = next(operands)
        if sdwa and name != "m64":
            stores.append(sdwa_store(inst, operand, name, ctx))
        else:
            stores.append(vector_store(inst, operand, name, ctx, high, bool(entry.options.get("keep_half"))))
    route = _route(entry, inst, matched[len(entry.dst)]) if dpp else None
    fetches: list[Fetch] = []
    position = 0
    for name in entry.src:
        if name in IMPLICIT:
            fetches.append(implicit_source(name))
            continue
        operand = next(operands)
        upper = halves and _op_sel(inst, position)
        _check_constant(inst, operand, name, upper)
        if sdwa and name != "m64" and position < 2:
            fetch = sdwa_source(inst, operand, name, ctx, position)
        else:
            fetch = vector_source(inst, operand, name, ctx, upper)
        if route is not None and position == 0:
            fetch = route.source(fetch)
        fetches.append(fetch)
        position += 1
    if entry.options.get("dst_is_source"):
        fetches.append(vector_source(inst, matched[0], entry.dst[0], ctx, high))
    fn = finish_result(entry, inst, ctx)
    target = None
    if not sdwa and sources_in_out(fn) is not None:
        target = _target(entry, fn, matched, ctx)
    step = _step(fn, fetches, stores, target)
    if route is not None:
        step = route.masked(step)
    if entry.options.get("writes_exec"):
        step = _exec_too(step, matched[0])
    return step


def _exec_too(step: Any, mask: Operand) -> Any:
    def cmpx(w: Waves) -> None:
        step(w)
        if mask.index != 126:
            w.sput64(126, w.sget64(mask.index))

    return cmpx


def _target(entry: Entry, fn: Any, operands: list[Operand], ctx: BindContext) -> tuple[type, int] | None:
    """Type and number of the register that ``fn`` may compute straight into, if it may."""
    if len(entry.dst) != 1 or (row := row_of(operands[0], entry.dst[0], ctx)) is None:
        return None
    shared = sources_in_out(fn) or ()
    shown = iter(operands[1:])
    sources = [None if name in IMPLICIT else row_of(next(shown), name, ctx) for name in entry.src]
    if entry.options.get("dst_is_source"):
        sources.append(row)
    if any(source == row and position not in shared for position, source in enumerate(sources)):
        return None
    return TYPES[entry.dst[0]].dtype, row


def _step(fn: Any, fetches: list[Fetch], stores: list[Store], target: tuple[type, int] | None) -> Any:
    """Fetch, compute, store; straight into the destination where every lane of every wave takes part."""
    if target is not None:
        return _direct(fn, fetches, stores[0], *target)
    if len(stores) > 1:

        def several(w: Waves) -> None:
            # all sources are read before any result is written: operands may overlap
            for put, value in zip(stores, fn(*[f(w) for f in fetches]), strict=True):
                put(w, value)

        return several
    store = stores[0]
    if len(fetches) == 1:
        (a,) = fetches
        return lambda w: store(w, fn(a(w)))
    if len(fetches) == 2:
        a, b = fetches
        return lambda w: store(w, fn(a(w), b(w)))
    if len(fetches) == 3:
        a, b, c = fetches
        return lambda w: store(w, fn(a(w), b(w), c(w)))
    return lambda w: store(w, fn(*[f(w) for f in fetches]))


def _direct(fn: Any, fetches: list[Fetch], store: Store, dtype: type, row: int) -> Any:
    if len(fetches) == 2:
        first, second = fetches

        def two(w: Waves) -> None:
            if w.full and w.sel is None:
                w.clock = w.stamps[row] = w.clock + 1
                fn(first(w), second(w), out=w.rows[dtype][row])
            else:
                store(w, fn(first(w), second(w)))

        return two

    def run(w: Waves) -> None:
        if w.full and w.sel is None:
            w.clock = w.stamps[row] = w.clock + 1
            fn(*[f(w) for f in fetches], out=w.rows[dtype][row])
        else:
            store(w, fn(*[f(w) for f in fetches]))

    return run
