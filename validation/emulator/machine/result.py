"""What happens to a VALU result between the pure semantics and the register: MODE, omod, clamp."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..errors import UnsupportedError
from ..isa.entry import Entry
from ..numerics import ieee
from ..program.program import Instruction
from .types import TYPES
from .waves import BindContext

_OMOD = {("mul", 2): 1, ("mul", 4): 2, ("div", 2): 3}
_MODE_FIELDS = {"f32": "32", "f64": "16_64", "f16": "16_64"}


def finish_result(entry: Entry, inst: Instruction, ctx: BindContext) -> Callable[..., Any]:
    """``entry.fn`` with the instruction's modifiers and the MODE register's effects on floats composed around it.

    Options read: ``keywords`` and ``saturate`` (see bind_valu); ``rounds``: ``fn`` takes ``round_mode=``, and denormals
    flush by MODE; ``flushes``: only the latter; ``ieee``: ``fn`` takes ``ieee=``, the MODE bit.
    """
    fn = entry.fn
    keywords = {name: inst.modifiers.get(name, default) for name, default in entry.options.get("keywords", {}).items()}
    if keywords:
        fn = partial(fn, **keywords)
    kind = entry.dst[0]
    if entry.options.get("rounds"):
        mode = ctx.mode.round_32 if kind == "f32" else ctx.mode.round_16_64
        if mode:
            fn = partial(fn, round_mode=mode)
    if entry.options.get("ieee"):
        fn = partial(fn, ieee=ctx.mode.ieee)
    if entry.options.get("flushes", entry.options.get("rounds")):
        fn = _flushing(fn, entry, ctx)
    for (name, value), code in _OMOD.items():
        if inst.modifiers.get(name) == value:
            fn = _scaled(fn, code, entry, inst, ctx)
    if inst.modifiers.get("clamp"):
        fn = _clamped(fn, entry, inst, ctx)
    return fn


def _denormal_mode(name: str, ctx: BindContext) -> int:
    """MODE.FP_DENORM for operands of that type; 3 (nothing is flushed) for those without."""
    return int(getattr(ctx.mode, f"denorm_{_MODE_FIELDS[name]}")) if name in _MODE_FIELDS else 3


def _flushing(fn: Callable[..., Any], entry: Entry, ctx: BindContext) -> Callable[..., Any]:
    sources = [*entry.src, *([entry.dst[0]] if entry.options.get("dst_is_source") else [])]
    modes = [_denormal_mode(name, ctx) for name in sources]
    out = _denormal_mode(entry.dst[0], ctx)
    if out & 2 and all(mode & 1 for mode in modes):
        return fn

    def flushed(*args: Any) -> Any:
        result = fn(*[a if mode & 1 else ieee.flush_inputs(a, mode) for a, mode in zip(args, modes, strict=True)])
        return result if out & 2 else ieee.flush_outputs(result, out)

    return flushed


def _float_result(entry: Entry, inst: Instruction, modifier: str) -> None:
    if not np.issubdtype(TYPES[entry.dst[0]].dtype, np.floating):
        raise UnsupportedError(f"{modifier} on {inst.mnemonic}", inst.line_number, inst.text)


def _scaled(fn: Callable[..., Any], code: int, entry: Entry, inst: Instruction, ctx: BindContext) -> Callable[..., Any]:
    """Output modifier. It has no effect where denormal results are allowed, nor in IEEE mode.

    Source: ISA manuals, "Output modifiers"; LLVM, SIFoldOperands, which forms them only where both are off.
    """
    _float_result(entry, inst, "omod")
    if ctx.mode.ieee or _denormal_mode(entry.dst[0], ctx) & 2:
        return fn
    return lambda *args: ieee.omod(fn(*args), code)


def _clamped(fn: Callable[..., Any], entry: Entry, inst: Instruction, ctx: BindContext) -> Callable[..., Any]:
    saturate = entry.options.get("saturate")
    if saturate is not None:
        return saturate
    _float_result(entry, inst, "clamp")
    return lambda *args: ieee.clamp(fn(*args), ctx.mode.dx10_clamp)
