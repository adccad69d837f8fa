"""MFMA and SMFMAC: matrix fused multiply-add, dense and 4:2 sparse, by table.

Source: CDNA3 and CDNA4 ISA manuals, "Matrix Arithmetic Instructions"; names: LLVM, VOP3PInstructions.td, which keeps
the spellings without underscores as aliases (on gfx942 and gfx950 ``bf16`` there means the same as ``bf16_1k``).
``v_mfma_ld_scale_b32`` by itself is left out: LLVM prints it only as part of ``v_mfma_scale_*``.
"""

from __future__ import annotations

from typing import Any

from .entry import BOTH, GFX942, GFX950, define


def _multiplied(*_: Any) -> Any:
    raise AssertionError("matrix instructions are executed by their binder")


Shape = tuple[int, int, int]  # M = N, K, blocks
_F16_SHAPES = ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1))
_WIDE_F16_SHAPES = ((32, 16, 1), (16, 32, 1))
_F32_SHAPES = ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1))
_XF32_SHAPES = ((32, 4, 1), (16, 8, 1))
_I8_SHAPES = ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 16, 1), (16, 32, 1))
_WIDE_I8_SHAPES = ((32, 32, 1), (16, 64, 1))
_FP8_SHAPES = ((32, 16, 1), (16, 32, 1))
_F8F6F4_SHAPES = ((32, 64), (16, 128))
_F64_SHAPES = ((16, 4, 1), (4, 4, 4))
_BYTE_FLOATS = [(a, b) for a in ("fp8", "bf8") for b in ("fp8", "bf8")]


def _old_spellings(shape: Shape, spelling: str) -> tuple[str, ...]:
    """What follows K in the aliases without underscores."""
    if spelling == "bf16":
        return ("bf16",) if shape in _WIDE_F16_SHAPES else ("bf16_1k", "bf16")
    return (spelling,) if "_" not in spelling else ()


def _family(shapes: tuple[Shape, ...], result: str, kinds: tuple[str, str], archs: tuple[str, ...]) -> None:
    """``kinds``: types of A and B."""
    a, b = kinds
    spelling = a if a == b and a not in ("fp8", "bf8") else f"{a}_{b}"
    for shape in shapes:
        size, depth, blocks = shape
        several = f"_{blocks}b" if blocks > 1 else ""
        base = f"v_mfma_{result}_{size}x{size}x{depth}"
        names = [f"{base}{several}_{spelling}", *(base + old for old in _old_spellings(shape, spelling))]
        for name in names:
            define(name, "mfma", "", "", _multiplied, archs, size=size, depth=depth, blocks=blocks, a=a, b=b,
                   result=result)  # fmt: skip


for _kind in ("f16", "bf16"):
    _family(_F16_SHAPES, "f32", (_kind, _kind), BOTH)
    _family(_WIDE_F16_SHAPES, "f32", (_kind, _kind), GFX950)
_family(_F32_SHAPES, "f32", ("f32", "f32"), BOTH)
_family(_XF32_SHAPES, "f32", ("xf32", "xf32"), GFX942)
_family(_F64_SHAPES, "f64", ("f64", "f64"), BOTH)
_family(_I8_SHAPES, "i32", ("i8", "i8"), BOTH)
_family(_WIDE_I8_SHAPES, "i32", ("i8", "i8"), GFX950)
for _kinds in _BYTE_FLOATS:
    _family(_FP8_SHAPES, "f32", _kinds, BOTH)
for _size, _depth in _F8F6F4_SHAPES:
    for _infix in ("", "scale_"):
        define(f"v_mfma_{_infix}f32_{_size}x{_size}x{_depth}_f8f6f4", "mfma_f8f6f4", "", "", _multiplied, GFX950,
               size=_size, depth=_depth, blocks=1, result="f32", scaled=bool(_infix))  # fmt: skip

# -- 4:2 sparse: K is that of B; A holds half of it --------------------------------------------------------------------
#: result, types of A and B, (M, K) of both architectures, (M, K) that gfx950 adds
_SPARSE: list[tuple[str, tuple[str, str], tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = [
    ("f32", ("f16", "f16"), ((16, 32), (32, 16)), ((16, 64), (32, 32))),
    ("f32", ("bf16", "bf16"), ((16, 32), (32, 16)), ((16, 64), (32, 32))),
    ("i32", ("i8", "i8"), ((16, 64), (32, 32)), ((16, 128), (32, 64))),
    *(("f32", kinds, ((16, 64), (32, 32)), ((16, 128), (32, 64))) for kinds in _BYTE_FLOATS),
]
for _result, (_a, _b), _common, _wide in _SPARSE:
    for _shapes, _archs in ((_common, BOTH), (_wide, GFX950)):
        for _size, _depth in _shapes:
            _spelling = _a if _a == _b and _a not in ("fp8", "bf8") else f"{_a}_{_b}"
            define(f"v_smfmac_{_result}_{_size}x{_size}x{_depth}_{_spelling}", "smfmac", "", "", _multiplied, _archs,
                   size=_size, depth=_depth, blocks=1, a=_a, b=_b, result=_result)  # fmt: skip
