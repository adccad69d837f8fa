"""MFMA: matrix fused multiply-add. Shapes and data layouts by table (CDNA3/CDNA4 ISA, "Matrix Arithmetic Instructions").

A wave holds A as rows x k and B as columns x k: lane ``l`` has row ``l % M`` and ``K / groups`` consecutive k, where
``groups = 64 / (M * blocks)`` lane groups share a block. D has four consecutive rows in four consecutive registers.
"""

from __future__ import annotations

from typing import Any

from .entry import GFX942, GFX950, define


def _multiplied(*_: Any) -> Any:
    raise AssertionError("MFMA is executed by its binder")


#: (M, N, K, blocks) by input type: name part -> shapes that both architectures have
_F16_SHAPES = ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 8, 1), (16, 16, 1))
_WIDE_F16_SHAPES = ((32, 16, 1), (16, 32, 1))
_F32_SHAPES = ((32, 1, 2), (16, 1, 4), (4, 1, 16), (32, 2, 1), (16, 4, 1))
_XF32_SHAPES = ((32, 4, 1), (16, 8, 1))
_I8_SHAPES = ((32, 4, 2), (16, 4, 4), (4, 4, 16), (32, 16, 1), (16, 32, 1))
_WIDE_I8_SHAPES = ((32, 32, 1), (16, 64, 1))
_FP8_SHAPES = ((32, 16, 1), (16, 32, 1))
_F8F6F4_SHAPES = ((32, 64, 1), (16, 128, 1))
_F64_SHAPES = ((16, 4, 1), (4, 4, 4))


def _name(result: str, size: int, depth: int, blocks: int, inputs: str) -> str:
    several = f"_{blocks}b" if blocks > 1 else ""
    return f"v_mfma_{result}_{size}x{size}x{depth}{several}_{inputs}"


def _old_name(result: str, size: int, depth: int, inputs: str) -> str:
    return f"v_mfma_{result}_{size}x{size}x{depth}{inputs}"


def _family(shapes: tuple[tuple[int, int, int], ...], result: str, kinds: tuple[str, ...], archs: tuple[str, ...]) -> None:
    """``kinds``: spelling of the inputs, type of A, type of B."""
    spelling, a, b = kinds
    for size, depth, blocks in shapes:
        options = {"size": size, "depth": depth, "blocks": blocks, "a": a, "b": b, "result": result}
        define(_name(result, size, depth, blocks, spelling), "mfma", "", "", _multiplied, archs, **options)
        if spelling in ("f32", "f16", "i8", "f64", "xf32"):
            define(_old_name(result, size, depth, spelling), "mfma", "", "", _multiplied, archs, **options)
        if spelling == "bf16":
            suffix = "bf16_1k" if (size, depth) not in ((32, 16), (16, 32)) else "bf16"
            define(_old_name(result, size, depth, suffix), "mfma", "", "", _multiplied, archs, **options)


BOTH = GFX942 + GFX950
for _kind in ("f16", "bf16"):
    _family(_F16_SHAPES, "f32", (_kind, _kind, _kind), BOTH)
    _family(_WIDE_F16_SHAPES, "f32", (_kind, _kind, _kind), GFX950)
_family(_F32_SHAPES, "f32", ("f32", "f32", "f32"), BOTH)
_family(_XF32_SHAPES, "f32", ("xf32", "xf32", "xf32"), GFX942)
_family(_F64_SHAPES, "f64", ("f64", "f64", "f64"), BOTH)
_family(_I8_SHAPES, "i32", ("i8", "i8", "i8"), BOTH)
_family(_WIDE_I8_SHAPES, "i32", ("i8", "i8", "i8"), GFX950)
for _a in ("fp8", "bf8"):
    for _b in ("fp8", "bf8"):
        _family(_FP8_SHAPES, "f32", (f"{_a}_{_b}", _a, _b), BOTH)
