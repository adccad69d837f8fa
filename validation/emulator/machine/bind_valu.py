"""Binder of vector ALU instructions (VOP1, VOP2, VOP3, VOPC) with op_sel, clamp, omod, SDWA and DPP."""

from __future__ import annotations

from typing import Any


from ..errors import AsmError, UnsupportedError
from ..isa.entry import Entry
from ..program.operands import VCC, Operand
from ..program.program import Instruction
from .fetch import Fetch, Store, implicit_source, reject_modifiers, vector_source, vector_store
from .lane_routing import DPP_MODIFIERS, dpp_route
from .result import finish_result
from .sub_dword import SDWA_MODIFIERS, sdwa_source, sdwa_store
from .types import IMPLICIT
from .waves import BindContext, Waves

_ACCEPTED = {"clamp", "mul", "div", "op_sel"} | SDWA_MODIFIERS | DPP_MODIFIERS
_VCC = Operand("s", VCC, 2)


def _op_sel(inst: Instruction, position: int) -> bool:
    bits = inst.modifiers.get("op_sel", ())
    return position < len(bits) and bool(bits[position])


def _match_operands(entry: Entry, inst: Instruction) -> list[Operand]:
    """Operands in table order. The e32 spelling of carry and compare instructions may leave ``vcc`` out."""
    shown = [t for t in (*entry.dst, *entry.src) if t not in IMPLICIT]
    operands = list(inst.operands)
    for position, name in enumerate(shown):
        if name == "m64" and len(operands) < len(shown):
            operands.insert(position, _VCC)
    if len(operands) != len(shown):
        raise AsmError(f"{inst.mnemonic} takes {len(shown)} operands, got {len(operands)}", inst.line_number, inst.text)
    return operands


def bind_valu(entry: Entry, inst: Instruction, ctx: BindContext) -> Any:
    """``fn(*sources) -> result`` or a tuple, one value per destination.

    Options:
        dst_is_source: the destination's old value is the last source (v_fmac, v_mac, v_dot2c).
        keep_half: a 16-bit result leaves the other half of the register as it was (else it becomes zero).
        saturate: variant of ``fn`` for integer clamp.
        rounds: ``fn`` takes ``round_mode=``; float results obey the MODE register.
        writes_exec: compare that also sets EXEC (v_cmpx_*).
    """
    reject_modifiers(inst, _ACCEPTED)
    operands = iter(_match_operands(entry, inst))
    sdwa = inst.encoding == "sdwa" or bool(SDWA_MODIFIERS & inst.modifiers.keys())
    dpp = bool(DPP_MODIFIERS & inst.modifiers.keys())
    if sdwa and dpp:
        raise AsmError("SDWA and DPP cannot be combined", inst.line_number, inst.text)
    stores: list[Store] = []
    first: tuple[Operand, str] | None = None
    high = _op_sel(inst, len([t for t in entry.src if t not in IMPLICIT]))
    for name in entry.dst:
        if name in IMPLICIT:
            raise UnsupportedError(f"implicit result {name}", inst.line_number, inst.text)
        operand = next(operands)
        first = first or (operand, name)
        if sdwa and name != "m64":
            stores.append(sdwa_store(inst, operand, name, ctx))
        else:
            stores.append(vector_store(inst, operand, name, ctx, high, bool(entry.options.get("keep_half"))))
    fetches: list[Fetch] = []
    route = dpp_route(inst) if dpp else None
    position = 0
    for name in entry.src:
        if name in IMPLICIT:
            fetches.append(implicit_source(name))
            continue
        operand = next(operands)
        if sdwa and name != "m64" and position < 2:
            fetch = sdwa_source(inst, operand, name, ctx, position)
        else:
            fetch = vector_source(inst, operand, name, ctx, _op_sel(inst, position))
        if route is not None and position == 0:
            fetch = route.source(fetch)
        fetches.append(fetch)
        position += 1
    if entry.options.get("dst_is_source"):
        assert first is not None
        fetches.append(vector_source(inst, first[0], first[1], ctx, high))
    fn = finish_result(entry, inst, ctx)
    step = _step(fn, fetches, stores)
    if route is not None:
        step = route.masked(step)
    if entry.options.get("writes_exec"):
        step = _exec_too(step, inst.operands[0] if len(inst.operands) > len(entry.src) else _VCC)
    return step


def _exec_too(step: Any, mask: Operand) -> Any:
    def cmpx(w: Waves) -> None:
        step(w)
        if mask.index != 126:
            w.sput64(126, w.sget64(mask.index))

    return cmpx


def _step(fn: Any, fetches: list[Fetch], stores: list[Store]) -> Any:
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


