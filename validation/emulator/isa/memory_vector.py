"""GLOBAL, FLAT and SCRATCH: loads, stores, atomics, loads into LDS (CDNA3 and CDNA4 ISA, FLAT opcodes)."""

from __future__ import annotations

from typing import Any

from .atomic_ops import ADD_F32, ADD_F64, INTEGER, MAX_F64, MIN_F64, PK_ADD_BF16, PK_ADD_F16
from .entry import BOTH, GFX950, define


def moved(*_: Any) -> Any:
    """``fn`` of entries whose semantics lie in their binder."""
    raise AssertionError("memory instructions are executed by their binder")


LOADS = (
    "ubyte", "sbyte", "ushort", "sshort", "dword", "dwordx2", "dwordx3", "dwordx4", "ubyte_d16", "ubyte_d16_hi",
    "sbyte_d16", "sbyte_d16_hi", "short_d16", "short_d16_hi",
)  # fmt: skip
STORES = ("byte", "short", "dword", "dwordx2", "dwordx3", "dwordx4", "byte_d16_hi", "short_d16_hi")
#: Formats of the loads into LDS and the architectures that have them.
LDS_LOADS = (
    ("ubyte", BOTH), ("sbyte", BOTH), ("ushort", BOTH), ("sshort", BOTH), ("dword", BOTH),
    ("dwordx3", GFX950), ("dwordx4", GFX950),
)  # fmt: skip
INTEGER_ATOMICS = (
    "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec", "swap", "cmpswap",
)  # fmt: skip
#: Mnemonic suffix, operation, operands in the data registers.
ATOMICS = (
    *((name, INTEGER[4][name], 1 + (name == "cmpswap")) for name in INTEGER_ATOMICS),
    *((f"{name}_x2", INTEGER[8][name], 1 + (name == "cmpswap")) for name in INTEGER_ATOMICS),
    ("add_f32", ADD_F32, 1),
    ("add_f64", ADD_F64, 1),
    ("min_f64", MIN_F64, 1),
    ("max_f64", MAX_F64, 1),
    ("pk_add_f16", PK_ADD_F16, 1),
    ("pk_add_bf16", PK_ADD_BF16, 1),
)

for _form in ("global", "flat", "scratch"):
    for _s in LOADS:
        define(f"{_form}_load_{_s}", _form, "", "", moved, kind="load", format=_s)
    for _s in STORES:
        define(f"{_form}_store_{_s}", _form, "", "", moved, kind="store", format=_s)
for _form in ("global", "flat"):
    for _s, _op, _n in ATOMICS:
        define(f"{_form}_atomic_{_s}", _form, "", "", moved, kind="atomic", op=_op, operands=_n)
for _s, _archs in LDS_LOADS:
    define(f"global_load_lds_{_s}", "global", "", "", moved, _archs, kind="lds", format=_s)
    if _archs is BOTH:
        define(f"scratch_load_lds_{_s}", "scratch", "", "", moved, kind="lds", format=_s)
