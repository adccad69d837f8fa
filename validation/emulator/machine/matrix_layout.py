"""Where the elements of MFMA operands sit: lanes and registers to matrices and back.

Checked against AMD's matrix instruction calculator (facts only); blocks are independent products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..numerics import smallfloat

U32 = np.uint32
_HIGH = U32(0xFFFF0000)
Words = NDArray[np.uint32]  # [registers, n, 64]


def _bf16(words: Words) -> list[Any]:
    return [half.view(np.float32) for w in words for half in (w << U32(16), w & _HIGH)]


def _f16(words: Words) -> list[Any]:
    return [half for w in words for half in _halves(w)]


def _halves(word: Any) -> tuple[Any, Any]:
    pair = np.ascontiguousarray(word).view(np.float16).reshape(*word.shape, 2)
    return pair[..., 0].astype(np.float32), pair[..., 1].astype(np.float32)


def _f32(words: Words) -> list[Any]:
    return [w.view(np.float32) for w in words]


def _xf32(words: Words) -> list[Any]:
    """xf32 keeps 10 fraction bits of float32; the rest is dropped (*inferred*: no manual says how it is rounded)."""
    return [(w & U32(0xFFFFE000)).view(np.float32) for w in words]


def _f64(words: Words) -> list[Any]:
    low, high = words[0::2], words[1::2]
    return [(lo.astype(np.uint64) | (hi.astype(np.uint64) << np.uint64(32))).view(np.float64) for lo, hi in zip(low, high)]


def _bytes(words: Words, decode: Callable[[Any], Any]) -> list[Any]:
    return [decode(((w >> U32(8 * i)) & U32(0xFF)).astype(np.uint8)) for w in words for i in range(4)]


def _i8(words: Words) -> list[Any]:
    return _bytes(words, lambda b: b.view(np.int8).astype(np.int32))


#: input type -> (elements in a dword, significand bits after the leading one, decoder to one array [n, 64] per element)
def decoder(kind: str, arch: str) -> tuple[float, int, Callable[[Words], list[Any]]]:
    fp8, bf8 = smallfloat.FP8[arch], smallfloat.BF8[arch]
    table: dict[str, tuple[float, int, Callable[[Words], list[Any]]]] = {
        "bf16": (2, 7, _bf16),
        "f16": (2, 10, _f16),
        "f32": (1, 23, _f32),
        "xf32": (1, 10, _xf32),
        "f64": (0.5, 52, _f64),
        "i8": (4, 7, _i8),
        "fp8": (4, 3, lambda w: _bytes(w, lambda b: smallfloat.decode(b, fp8))),
        "bf8": (4, 2, lambda w: _bytes(w, lambda b: smallfloat.decode(b, bf8))),
    }
    return table[kind]


def to_matrix(elements: list[Any], size: int, depth: int, blocks: int, wide: bool = False) -> NDArray[Any]:
    """Elements [n, 64] each -> [n, blocks, depth, size]."""
    n = elements[0].shape[0]
    if size == 4 and wide:
        # 4x4x4 f64: lane = 16 k + 4 block + row
        return elements[0].reshape(n, 4, 4, 4).transpose(0, 2, 1, 3)
    groups = 64 // (size * blocks)
    matrix = np.empty((n, blocks, groups, len(elements), size), elements[0].dtype)
    for j, element in enumerate(elements):
        matrix[:, :, :, j, :] = element.reshape(n, blocks, groups, size)
    return matrix.reshape(n, blocks, depth, size)


def result_registers(size: int, blocks: int, wide: bool) -> int:
    return size * size * blocks // 64 * (2 if wide else 1)


def accumulator_to_registers(d: NDArray[Any], wide: bool = False) -> list[NDArray[Any]]:
    """[n, blocks, rows, columns] -> one [n, 64] array for each accumulator element of a lane. ``wide``: f64 layout."""
    n, blocks, size, _ = d.shape
    if wide:
        if size == 4:  # lane = 16 row + 4 block + column
            return [d.transpose(0, 2, 1, 3).reshape(n, 64)]
        return [d[:, 0, 4 * r : 4 * r + 4, :].reshape(n, 64) for r in range(4)]  # row = 4 register + lane / 16
    if size == 4:  # lane = 4 block + column, row = register
        return [d[:, :, r, :].reshape(n, 64) for r in range(4)]
    groups = 64 // size
    # row = 4 * groups * (register / 4) + 4 * (lane / size) + register % 4
    split = d.reshape(n, blocks, size // (4 * groups), groups, 4, size)
    return [
        split[:, b, q, :, r, :].reshape(n, 64) for b in range(blocks) for q in range(size // (4 * groups)) for r in range(4)
    ]


def registers_to_accumulator(
    registers: list[NDArray[Any]], size: int, blocks: int, wide: bool = False
) -> NDArray[Any]:
    """Inverse of ``accumulator_to_registers``."""
    n, dtype = registers[0].shape[0], registers[0].dtype
    d = np.empty((n, blocks, size, size), dtype)
    if wide:
        if size == 4:
            return registers[0].reshape(n, 4, 4, 4).transpose(0, 2, 1, 3)
        for r, value in enumerate(registers):
            d[:, 0, 4 * r : 4 * r + 4, :] = value.reshape(n, 4, 16)
        return d
    if size == 4:
        for r, value in enumerate(registers):
            d[:, :, r, :] = value.reshape(n, 16, 4)
        return d
    groups = 64 // size
    quads = size // (4 * groups)
    split = d.reshape(n, blocks, quads, groups, 4, size)
    for i, value in enumerate(registers):
        b, q, r = i // (4 * quads), i // 4 % quads, i % 4
        split[:, b, q, :, r, :] = value.reshape(n, groups, size)
    return d


def broadcast_blocks(matrix: NDArray[Any], cbsz: int, abid: int) -> NDArray[Any]:
    """cbsz/abid: each group of 2**cbsz blocks of A uses its block number ``abid``."""
    if not cbsz:
        return matrix
    blocks = matrix.shape[1]
    width = 1 << cbsz
    source = (np.arange(blocks) // width) * width + abid
    return matrix[:, source]


def permute_lanes(words: Words, blgp: int) -> Words:
    """blgp: which lanes B comes from (CDNA3 ISA, "Broadcasting Values")."""
    lane = np.arange(64)
    source = {
        0: lane,
        1: lane % 32,
        2: lane % 32 + 32,
        3: (lane + 16) % 64,
        4: lane % 16,
        5: lane % 16 + 16,
        6: lane % 16 + 32,
        7: lane % 16 + 48,
    }[blgp]
    return words if blgp == 0 else words[:, :, source]
