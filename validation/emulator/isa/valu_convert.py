"""Conversions among f16, bf16, f32, f64 and integers (CDNA3 ISA, ``V_CVT_*``); small floats are in ``small_float``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..numerics import convert, formats
from .entry import GFX950, define

#: mnemonic, destination, source, semantics: results that round by MODE
_ROUNDING: list[tuple[str, str, str, Callable[..., Any]]] = [
    ("v_cvt_f32_i32", "f32", "i32", convert.i32_to_f32),
    ("v_cvt_f32_u32", "f32", "u32", convert.u32_to_f32),
    ("v_cvt_f16_f32", "f16", "f32", formats.f32_to_f16),
    ("v_cvt_f32_f64", "f32", "f64", formats.f64_to_f32),
    ("v_cvt_f16_u16", "f16", "u16", convert.u16_to_f16),
    ("v_cvt_f16_i16", "f16", "i16", convert.i16_to_f16),
]
#: exact ones, and those that truncate or saturate
_FIXED: list[tuple[str, str, str, Callable[..., Any]]] = [
    ("v_cvt_f32_f16", "f32", "f16", formats.f16_to_f32),
    ("v_cvt_f64_f32", "f64", "f32", formats.f32_to_f64),
    ("v_cvt_f64_i32", "f64", "i32", convert.i32_to_f64),
    ("v_cvt_f64_u32", "f64", "u32", convert.u32_to_f64),
    ("v_cvt_i32_f32", "i32", "f32", convert.float_to_i32),
    ("v_cvt_u32_f32", "u32", "f32", convert.float_to_u32),
    ("v_cvt_i32_f64", "i32", "f64", convert.float_to_i32),
    ("v_cvt_u32_f64", "u32", "f64", convert.float_to_u32),
    ("v_cvt_i16_f16", "i16", "f16", convert.float_to_i16),
    ("v_cvt_u16_f16", "u16", "f16", convert.float_to_u16),
    ("v_cvt_rpi_i32_f32", "i32", "f32", convert.f32_to_i32_rpi),
    ("v_cvt_flr_i32_f32", "i32", "f32", convert.f32_to_i32_flr),
    ("v_cvt_off_f32_i4", "f32", "u32", convert.i4_to_f32_offset),
    ("v_cvt_norm_i16_f16", "i16", "f16", convert.float_to_snorm16),
    ("v_cvt_norm_u16_f16", "u16", "f16", convert.float_to_unorm16),
    *((f"v_cvt_f32_ubyte{i}", "f32", "u32", partial(convert.ubyte_to_f32, byte=i)) for i in range(4)),
]
#: two operands into one register
_PACKED: list[tuple[str, str, Callable[..., Any]]] = [
    ("v_cvt_pkrtz_f16_f32", "f32 f32", formats.cvt_pkrtz_f16_f32),
    ("v_cvt_pknorm_i16_f32", "f32 f32", convert.cvt_pknorm_i16),
    ("v_cvt_pknorm_u16_f32", "f32 f32", convert.cvt_pknorm_u16),
    ("v_cvt_pknorm_i16_f16", "f16 f16", convert.cvt_pknorm_i16),
    ("v_cvt_pknorm_u16_f16", "f16 f16", convert.cvt_pknorm_u16),
]


for _name, _dst, _src, _fn in _ROUNDING:
    define(_name, "valu", _dst, _src, _fn, rounds=True)
for _name, _dst, _src, _fn in _FIXED:
    define(_name, "valu", _dst, _src, _fn, flushes=True)
for _name, _src, _fn in _PACKED:
    define(_name, "valu", "u32", _src, _fn)
define("v_cvt_pk_u8_f32", "valu", "u32", "f32 u32 u32", convert.cvt_pk_u8_f32)
define("v_cvt_pkaccum_u8_f32", "valu", "u32", "f32 u32", convert.cvt_pk_u8_f32, dst_is_source=True)
define("v_pack_b32_f16", "valu", "u32", "f16 f16", formats.pack16)
define("v_cvt_pk_bf16_f32", "valu", "u32", "f32 f32", formats.cvt_pk_bf16_f32, GFX950)
define("v_cvt_pk_f16_f32", "valu", "u32", "f32 f32", formats.cvt_pk_f16_f32, GFX950)
define("v_cvt_f32_bf16", "valu", "f32", "bf16", formats.bf16_to_f32, GFX950)
