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


#: Instructions that give an infinity for a zero: the position of the operand that is divided by.
_DIVISORS = {"v_rcp_f16": 0, "v_rsq_f16": 0, "v_log_f16": 0, "v_div_fixup_f16": 1}
#: Two f16 results in one register, from one source each.
_PACKED_F16 = ("v_cvt_pk_f16_f32",)
_MAX_F16 = np.float16(65504)


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
    if ctx.mode.fp16_overflow and (kind == "f16" or entry.mnemonic in _PACKED_F16):
        fn = _limited(fn, entry, ctx)
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


def _limited(fn: Callable[..., Any], entry: Entry, ctx: BindContext) -> Callable[..., Any]:
    """MODE.FP16_OVFL: what overflows becomes the largest f16; an infinite source or a zero divisor gives infinity.

    Source: LLVM, AMDGPUUsage, ``FP16_OVFL`` of the compute program resource registers.
    """
    divisor, keeps = _DIVISORS.get(entry.mnemonic, -1), _denormal_mode("f16", ctx)

    def limited(*args: Any) -> Any:
        result = np.asarray(fn(*args))
        halves = [result] if result.dtype == np.float16 else [*_halves(result)]
        groups = [args] if len(halves) == 1 else [(a,) for a in args]
        done = []
        for half, sources in zip(halves, groups, strict=True):
            overflow: Any = np.isinf(half)
            for position, x in enumerate(sources):
                if np.issubdtype(np.asarray(x).dtype, np.floating):
                    overflow = overflow & ~np.isinf(x)
                if position == divisor:
                    overflow = overflow & (ieee.flush_inputs(np.asarray(x), keeps) != 0)
            done.append(np.where(overflow, np.copysign(_MAX_F16, half), half))
        if len(done) == 1:
            return done[0]
        low, high = (x.view(np.uint16).astype(np.uint32) for x in done)
        return low | (high << np.uint32(16))

    return limited


def _halves(word: Any) -> tuple[Any, Any]:
    return tuple((word >> np.uint32(shift)).astype(np.uint16).view(np.float16) for shift in (0, 16))


def _float_result(entry: Entry, inst: Instruction, modifier: str) -> None:
    if len(entry.dst) != 1 or not np.issubdtype(TYPES[entry.dst[0]].dtype, np.floating):
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
