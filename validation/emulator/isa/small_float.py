"""Conversions to and from fp8, bf8, fp6, bf6 and fp4, and the stochastically rounded ones.

``fn(elements, scale, seeds, saturate) -> elements``: lists of arrays [n, 64]; scale: biased exponent (int32) or None;
seeds: one uint32 array for each element, or None; saturate: MODE.FP16_OVFL. Elements of narrow formats are codes
(unsigned), f32 and f16 are floats, bf16 is float32 as a source and bits (uint16) as a result.
Semantics: CDNA3 and CDNA4 ISA manuals, ``V_CVT_*``; the numbers are in ``numerics.smallfloat``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import formats, smallfloat
from ..numerics.smallfloat import Format
from .entry import GFX942, GFX950, define

Elements = list[Any]
Convert = Callable[[Elements, Any, Elements | None, bool], Elements]
_TO: dict[str, type] = {"f32": np.float32, "f16": np.float16, "bf16": np.uint16}
_CODE_BITS = {"fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4}
_FIXED = {"fp6": smallfloat.E2M3, "bf6": smallfloat.E3M2, "fp4": smallfloat.E2M1}


def narrow_format(name: str, arch: str) -> Format:
    """What ``fp8``, ``bf8``, ``fp6``, ``bf6`` or ``fp4`` means on that architecture."""
    return {"fp8": smallfloat.FP8[arch], "bf8": smallfloat.BF8[arch], **_FIXED}[name]


def _encoder(fmt: Format, source: str) -> Convert:
    bits = 7 if source == "bf16" else None

    def encode(elements: Elements, scale: Any, seeds: Elements | None, saturate: bool) -> Elements:
        pairs = zip(elements, seeds if seeds is not None else [None] * len(elements), strict=True)
        if scale is None:
            return [smallfloat.encode(x, fmt, saturate, seed) for x, seed in pairs]
        return [smallfloat.encode_scaled(x, scale, fmt, saturate, seed, bits) for x, seed in pairs]

    return encode


def _decoder(fmt: Format, result: str) -> Convert:
    def decode(elements: Elements, scale: Any, seeds: Elements | None, saturate: bool) -> Elements:
        if scale is None and result == "f32":
            return [smallfloat.decode(x, fmt) for x in elements]
        power = smallfloat.SCALE_BIAS if scale is None else scale
        return [smallfloat.decode_scaled(x, power, fmt, _TO[result]) for x in elements]

    return decode


def _stochastic(convert: Callable[[Any, Any], Any]) -> Convert:
    def to_half(elements: Elements, scale: Any, seeds: Elements | None, saturate: bool) -> Elements:
        assert seeds is not None
        return [convert(x, seed) for x, seed in zip(elements, seeds, strict=True)]

    return to_half


def _single_byte(fmt: Format) -> Callable[[Any], Any]:
    return lambda word: smallfloat.decode(np.asarray(word), fmt)


def _convert(
    mnemonic: str,
    fn: Convert,
    archs: tuple[str, ...],
    source: tuple[str, int, tuple[int, ...]],
    result: tuple[int, int],
    scaled: bool = False,
    stochastic: bool = False,
    sdwa_word: bool = False,
) -> None:
    """``source``: format, elements, registers of each data operand; ``result``: bits of an element, registers."""
    define(mnemonic, "small_float", "", "", fn, archs, source=source, result=result, scaled=scaled,
           stochastic=stochastic, sdwa_word=sdwa_word)  # fmt: skip


# -- unscaled, both architectures ----------------------------------------------------------------------------------
for _arch in (GFX942, GFX950):
    for _name in ("fp8", "bf8"):
        _fmt = narrow_format(_name, _arch[0])
        _to_narrow, _to_f32 = _encoder(_fmt, "f32"), _decoder(_fmt, "f32")
        define(f"v_cvt_f32_{_name}", "byte_convert", "f32", "u32", _single_byte(_fmt), _arch)
        _convert(f"v_cvt_pk_f32_{_name}", _to_f32, _arch, (_name, 2, (1,)), (32, 2), sdwa_word=True)
        _convert(f"v_cvt_pk_{_name}_f32", _to_narrow, _arch, ("f32", 2, (1, 1)), (8, 1))
        _convert(f"v_cvt_sr_{_name}_f32", _to_narrow, _arch, ("f32", 1, (1,)), (8, 1), stochastic=True)
for _name, _stochastic_fn in (("f16", formats.f32_to_f16_sr), ("bf16", formats.f32_to_bf16_sr)):
    _convert(f"v_cvt_sr_{_name}_f32", _stochastic(_stochastic_fn), GFX950, ("f32", 1, (1,)), (16, 1), stochastic=True)

# -- scaled, gfx950 ------------------------------------------------------------------------------------------------
_WIDE = ("f32", "f16", "bf16")
for _name in _CODE_BITS:
    _bits, _fmt = _CODE_BITS[_name], narrow_format(_name, "gfx950")
    for _wide in _WIDE:
        _to_narrow, _to_wide = _encoder(_fmt, _wide), _decoder(_fmt, _wide)
        _many, _wide_bits = "32" if _bits == 6 else "", 32 if _wide == "f32" else 16
        _count = 32 if _bits == 6 else 2
        _wide_registers = _count * _wide_bits // 32
        _narrow_registers = 6 if _bits == 6 else 1
        _pair = (1, 1) if _wide == "f32" else (1,)
        _down, _up = f"v_cvt_scalef32_{{}}{_name}_{_wide}", f"v_cvt_scalef32_{{}}{_wide}_{_name}"
        # to the wide format
        _convert(_up.format(f"pk{_many}_"), _to_wide, GFX950, (_name, _count, (_narrow_registers,)),
                 (_wide_bits, _wide_registers), scaled=True)  # fmt: skip
        if _bits == 8 and _wide != "bf16":
            _convert(_up.format(""), _to_wide, GFX950, (_name, 1, (1,)), (_wide_bits, 1), scaled=True)
        # to the narrow format, to nearest
        if _bits == 6 and _wide == "f32":
            _convert(_down.format("2xpk16_"), _to_narrow, GFX950, (_wide, 32, (16, 16)), (_bits, 6), scaled=True)
        elif _bits == 6:
            _convert(_down.format("pk32_"), _to_narrow, GFX950, (_wide, 32, (16,)), (_bits, 6), scaled=True)
        else:
            _convert(_down.format("pk_"), _to_narrow, GFX950, (_wide, 2, _pair), (_bits, 1), scaled=True)
        # to the narrow format, stochastically
        if _bits == 8:
            _convert(_down.format("sr_"), _to_narrow, GFX950, (_wide, 1, (1,)), (_bits, 1), True, True)
        else:
            _convert(_down.format(f"sr_pk{_many}_"), _to_narrow, GFX950, (_wide, _count, (_wide_registers,)),
                     (_bits, _narrow_registers), True, True)  # fmt: skip
