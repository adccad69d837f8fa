"""Float VALU: arithmetic, transcendental functions, rounding, min/max, division helpers in f16, f32 and f64.

The numbers come from ``numerics``; a row here says which function, on which types, and what MODE does to it.
Source: CDNA3 ISA, VOP1/VOP2/VOP3 opcode tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..numerics import division, fma, ieee
from ..numerics import transcendental as tr
from .entry import GFX950, define

_ADD = {"f16": fma.add16, "f32": fma.add32, "f64": fma.add64}
_MUL = {"f16": fma.mul16, "f32": fma.mul32, "f64": fma.mul64}
_FMA = {"f16": fma.fma16, "f32": fma.fma32, "f64": fma.fma64}


def _subtract(add: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, round_mode=0: add(a, np.negative(b), round_mode=round_mode)


def _subtract_reversed(add: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b, round_mode=0: add(np.negative(a), b, round_mode=round_mode)


_SUB = {"f16": _subtract(fma.add16), "f32": fma.sub32}


def _mad(kind: str) -> Callable[..., Any]:
    """Multiply and add with two roundings (v_mac, v_mad: denormals flush by MODE as for each operation)."""
    return lambda a, b, c, round_mode=0: _ADD[kind](_MUL[kind](a, b, round_mode), c, round_mode)


def _ldexp(x: Any, exponent: Any, round_mode: int = 0) -> Any:
    return ieee.ldexp(x, exponent, round_mode)


# -- arithmetic that rounds by MODE and flushes denormals by MODE --
for _t in ("f16", "f32", "f64"):
    _two = f"{_t} {_t}"
    define(f"v_add_{_t}", "valu", _t, _two, _ADD[_t], rounds=True)
    define(f"v_mul_{_t}", "valu", _t, _two, _MUL[_t], rounds=True)
    define(f"v_fma_{_t}", "valu", _t, f"{_two} {_t}", _FMA[_t], rounds=True, keep_half=True)
for _t in ("f16", "f32"):
    _two = f"{_t} {_t}"
    define(f"v_sub_{_t}", "valu", _t, _two, _SUB[_t], rounds=True)
    define(f"v_subrev_{_t}", "valu", _t, _two, _subtract_reversed(_ADD[_t]), rounds=True)
for _t in ("f32", "f64"):
    define(f"v_fmac_{_t}", "valu", _t, f"{_t} {_t}", _FMA[_t], rounds=True, dst_is_source=True)
define("v_fmaak_f32", "valu", "f32", "f32 f32 f32", fma.fma32, rounds=True)
define("v_fmamk_f32", "valu", "f32", "f32 f32 f32", fma.fma32, rounds=True)
define("v_mac_f16", "valu", "f16", "f16 f16", _mad("f16"), rounds=True, dst_is_source=True, keep_half=True)
define("v_mad_f16", "valu", "f16", "f16 f16 f16", _mad("f16"), rounds=True, keep_half=True)
define("v_madak_f16", "valu", "f16", "f16 f16 f16", _mad("f16"), rounds=True, keep_half=True)
define("v_madmk_f16", "valu", "f16", "f16 f16 f16", _mad("f16"), rounds=True, keep_half=True)
define("v_mul_legacy_f32", "valu", "f32", "f32 f32", ieee.mul_legacy, flushes=True)
define("v_ldexp_f32", "valu", "f32", "f32 i32", _ldexp, rounds=True)
define("v_ldexp_f64", "valu", "f64", "f64 i32", _ldexp, rounds=True)
define("v_ldexp_f16", "valu", "f16", "f16 i16", _ldexp, rounds=True)

# -- one operand --
#: name -> function by type
_UNARY: dict[str, dict[str, Callable[..., Any]]] = {
    "rcp": {"f16": tr.rcp16, "f32": tr.rcp32, "f64": tr.rcp64},
    "rsq": {"f16": tr.rsq16, "f32": tr.rsq32, "f64": tr.rsq64},
    "sqrt": {"f16": tr.sqrt16, "f32": tr.sqrt32, "f64": tr.sqrt64},
    "exp": {"f16": tr.exp2_16, "f32": tr.exp2_32},
    "log": {"f16": tr.log2_16, "f32": tr.log2_32},
    "sin": {"f16": tr.sin16, "f32": tr.sin32},
    "cos": {"f16": tr.cos16, "f32": tr.cos32},
    "trunc": dict.fromkeys(("f16", "f32", "f64"), ieee.trunc),
    "ceil": dict.fromkeys(("f16", "f32", "f64"), ieee.ceil),
    "floor": dict.fromkeys(("f16", "f32", "f64"), ieee.floor),
    "rndne": dict.fromkeys(("f16", "f32", "f64"), ieee.rndne),
    "fract": dict.fromkeys(("f16", "f32", "f64"), ieee.fract),
    "frexp_mant": dict.fromkeys(("f16", "f32", "f64"), ieee.frexp_mant),
}
for _name, _by_type in _UNARY.items():
    for _t, _fn in _by_type.items():
        define(f"v_{_name}_{_t}", "valu", _t, _t, _fn, flushes=True)
define("v_rcp_iflag_f32", "valu", "f32", "f32", tr.rcp32, flushes=True)
define("v_exp_legacy_f32", "valu", "f32", "f32", tr.exp2_32, flushes=True)
define("v_log_legacy_f32", "valu", "f32", "f32", tr.log2_32, flushes=True)
define("v_frexp_exp_i32_f32", "valu", "i32", "f32", ieee.frexp_exp, flushes=True)
define("v_frexp_exp_i32_f64", "valu", "i32", "f64", ieee.frexp_exp, flushes=True)
define("v_frexp_exp_i16_f16", "valu", "i16", "f16", lambda x: ieee.frexp_exp(x).astype(np.int16), flushes=True)

# -- minima, maxima: ``ieee`` hands MODE.IEEE to the function --
for _t in ("f16", "f32", "f64"):
    define(f"v_min_{_t}", "valu", _t, f"{_t} {_t}", ieee.minimum, flushes=True, ieee=True)
    define(f"v_max_{_t}", "valu", _t, f"{_t} {_t}", ieee.maximum, flushes=True, ieee=True)
for _t in ("f16", "f32"):
    for _name, _fn in (("min3", ieee.min3), ("max3", ieee.max3), ("med3", ieee.med3)):
        define(f"v_{_name}_{_t}", "valu", _t, f"{_t} {_t} {_t}", _fn, flushes=True, ieee=True, keep_half=True)
define("v_minimum3_f32", "valu", "f32", "f32 f32 f32", ieee.minimum3, GFX950, flushes=True)
define("v_maximum3_f32", "valu", "f32", "f32 f32 f32", ieee.maximum3, GFX950, flushes=True)

# -- division helpers --
for _t in ("f32", "f64"):
    define(f"v_div_scale_{_t}", "valu", f"{_t} m64", f"{_t} {_t} {_t}", division.div_scale)
    define(f"v_div_fmas_{_t}", "valu", _t, f"{_t} {_t} {_t} vccmask", division.div_fmas)
for _t in ("f16", "f32", "f64"):
    define(f"v_div_fixup_{_t}", "valu", _t, f"{_t} {_t} {_t}", division.div_fixup, flushes=_t != "f16", keep_half=True)
define("v_trig_preop_f64", "valu", "f64", "f64 u32", division.trig_preop)
