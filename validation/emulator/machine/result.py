"""What happens to a VALU result between the pure semantics and the register: MODE, omod, clamp."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..isa.entry import Entry
from ..program.program import Instruction
from .types import TYPES
from .waves import BindContext

_OMOD = {("mul", 2): 2.0, ("mul", 4): 4.0, ("div", 2): 0.5}
_FLUSHABLE = {"f32": "denorm_32", "f64": "denorm_16_64", "f16": "denorm_16_64"}
_TINY = {"f32": np.finfo(np.float32).tiny, "f64": np.finfo(np.float64).tiny, "f16": np.finfo(np.float16).tiny}


def _flush(x: Any, tiny: Any) -> Any:
    """Denormals become zeros of their sign."""
    x = np.asarray(x)
    return np.where(np.abs(x) < tiny, np.copysign(x.dtype.type(0), x), x)


def finish_result(entry: Entry, inst: Instruction, ctx: BindContext) -> Callable[..., Any]:
    """``entry.fn`` with the instruction's and the MODE register's effects on floats composed around it."""
    fn = entry.fn
    kind = entry.dst[0]
    if entry.options.get("rounds"):
        mode = ctx.mode.round_32 if kind == "f32" else ctx.mode.round_16_64
        if mode:
            fn = partial(fn, round_mode=mode)
    if entry.options.get("flushes", entry.options.get("rounds")):
        fn = _flushing(fn, entry, ctx)
    for (name, value), factor in _OMOD.items():
        if inst.modifiers.get(name) == value:
            fn = _scaled(fn, TYPES[kind].dtype(factor))
    if inst.modifiers.get("clamp"):
        fn = _clamped(fn, entry, inst, ctx)
    return fn


def _flushing(fn: Callable[..., Any], entry: Entry, ctx: BindContext) -> Callable[..., Any]:
    def keeps(name: str, bit: int) -> bool:
        return name not in _FLUSHABLE or bool(getattr(ctx.mode, _FLUSHABLE[name]) & bit)

    sources = list(entry.src) + ([entry.dst[0]] if entry.options.get("dst_is_source") else [])
    ins = [None if keeps(name, 1) else _TINY[name] for name in sources]
    out = None if keeps(entry.dst[0], 2) else _TINY[entry.dst[0]]
    if out is None and not any(ins):
        return fn

    def flushed(*args: Any) -> Any:
        result = fn(*[a if tiny is None else _flush(a, tiny) for a, tiny in zip(args, ins, strict=True)])
        return result if out is None else _flush(result, out)

    return flushed


def _scaled(fn: Callable[..., Any], factor: Any) -> Callable[..., Any]:
    return lambda *args: fn(*args) * factor


def _clamped(fn: Callable[..., Any], entry: Entry, inst: Instruction, ctx: BindContext) -> Callable[..., Any]:
    saturate = entry.options.get("saturate")
    if saturate is not None:
        return saturate
    dtype = TYPES[entry.dst[0]].dtype
    if not TYPES[entry.dst[0]].is_float or dtype is np.uint16:
        raise UnsupportedError(f"clamp on {inst.mnemonic}", inst.line_number, inst.text)
    zero, one, to_zero = dtype(0), dtype(1), ctx.mode.dx10_clamp

    def clamped(*args: Any) -> Any:
        x = fn(*args)
        limited = np.minimum(np.maximum(x, zero), one)
        return np.where(np.isnan(x), zero, limited) if to_zero else limited

    return clamped
