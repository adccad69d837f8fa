"""Where the elements of MFMA operands sit: lanes and registers to matrices and back.

Sources (facts only): AMD's matrix instruction calculator; for the gfx950 ``f8f6f4`` shapes and their scales the
register maps in composable_kernel, ``test/mx_mfma_op/mx_mfma_op.hpp``. Blocks are independent products.

A lane holds some slots (elements) of one row. ``single block``: lane = size * group + row. ``several``: lane =
size * block + row. Matrices are built with k as (slot, group), because whole registers copy fastest that way; the
``ascending`` index leads from there to k.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

U32 = np.uint32
Words = NDArray[np.uint32]  # [registers, n, 64]


# -- A and B -----------------------------------------------------------------------------------------------------------
def to_matrix(elements: Any, size: int, blocks: int, out: NDArray[Any]) -> NDArray[Any]:
    """Elements [x, y, n, 64], slot = y slots * x + y, into ``out`` [n * blocks, depth, size], which is returned."""
    x, y, n, _ = elements.shape
    if blocks == 1:
        np.copyto(out.reshape(n, x, y, 64).transpose(1, 2, 0, 3), elements, casting="unsafe")
    else:
        places = out.reshape(n, blocks, x, y, size).transpose(2, 3, 0, 1, 4)
        np.copyto(places, elements.reshape(x, y, n, blocks, size), casting="unsafe")
    return out


def f64_small_matrix(element: NDArray[np.float64]) -> NDArray[np.float64]:
    """4x4x4 f64 with four blocks: lane = 16 k + 4 block + row. [n, 64] -> [n, blocks, depth, size]."""
    return element.reshape(-1, 4, 4, 4).transpose(0, 2, 1, 3)


def true_k(slots: int, groups: int, chunk: int) -> NDArray[np.intp]:
    """k of each position of (slot, group). A lane's slots are cut into chunks of consecutive k, dealt to the groups."""
    slot, group = np.meshgrid(np.arange(slots), np.arange(groups), indexing="ij")
    return ((slot // chunk) * (chunk * groups) + group * chunk + slot % chunk).reshape(-1).astype(np.intp)


def row_order(size: int) -> NDArray[np.intp]:
    """Lanes of A rearranged so that the product's rows come as (quad of rows, row in quad, lane group).

    Then the result's registers are runs of 64 consecutive elements. Result rows: row = 4 groups * quad + 4 group + r.
    """
    lane = np.arange(64)
    if size == 4:
        return lane
    groups = 64 // size
    rows = np.arange(size).reshape(-1, groups, 4).transpose(0, 2, 1).reshape(-1)
    return (lane // size) * size + rows[lane % size]


def permute_lanes(words: Words, blgp: int) -> Words:
    """blgp: which lanes B comes from (CDNA3 ISA, "Broadcasting Values")."""
    if blgp == 0:
        return words
    lane = np.arange(64)
    source = {
        1: lane % 32,
        2: lane % 32 + 32,
        3: (lane + 16) % 64,
        4: lane % 16,
        5: lane % 16 + 16,
        6: lane % 16 + 32,
        7: lane % 16 + 48,
    }[blgp]
    return words[:, :, source]


def broadcast_blocks(matrix: NDArray[Any], cbsz: int, abid: int) -> NDArray[Any]:
    """cbsz/abid: each group of 2**cbsz blocks of A uses its block number ``abid``."""
    if not cbsz:
        return matrix
    blocks = matrix.shape[1]
    width = 1 << cbsz
    source = (np.arange(blocks) // width) * width + abid
    return matrix[:, source]


# -- C and D -----------------------------------------------------------------------------------------------------------
def result_registers(size: int, blocks: int, wide: bool) -> int:
    return size * size * blocks // 64 * (2 if wide else 1)


def registers_of(product: NDArray[Any], size: int, blocks: int, n: int) -> NDArray[Any]:
    """Product with A's rows in ``row_order`` [n * blocks, size, size] -> [n, registers, 64]; a view where it can be."""
    if size == 4:  # lane = 4 block + column, row = register
        return product.reshape(n, blocks, 4, 4).transpose(0, 2, 1, 3).reshape(n, 4, 64)
    return product.reshape(n, -1, 64)


def product_of(registers: NDArray[Any], size: int, blocks: int) -> NDArray[Any]:
    """Inverse of ``registers_of``: [n, registers, 64] -> [n * blocks, size, size]."""
    n = len(registers)
    if size == 4:
        return registers.reshape(n, 4, blocks, 4).transpose(0, 2, 1, 3).reshape(n * blocks, 4, 4)
    return registers.reshape(n * blocks, size, size)


def element_places(matrix: Any, row: Any, column: Any, size: int, blocks: int) -> tuple[Any, Any, Any]:
    """Where ``registers_of`` puts elements of a product: wave, register, lane."""
    wave, block = matrix // blocks, matrix % blocks
    if size == 4:
        return wave, row, 4 * block + column
    place = (block * size + row) * size + column
    return wave, place // 64, place % 64


def accumulator_to_registers(d: NDArray[Any], wide: bool = False) -> list[NDArray[Any]]:
    """[n, blocks, rows, columns] -> one [n, 64] array for each accumulator element of a lane. ``wide``: f64 layout."""
    n, blocks, size, _ = d.shape
    if wide:
        if size == 4:  # lane = 16 row + 4 block + column
            return [d.transpose(0, 2, 1, 3).reshape(n, 64)]
        return [d[:, 0, 4 * r : 4 * r + 4, :].reshape(n, 64) for r in range(4)]  # row = 4 register + lane / 16
    if size == 4:
        return [d[:, :, r, :].reshape(n, 64) for r in range(4)]
    groups = 64 // size
    quads = size // (4 * groups)
    # row = 4 * groups * (register / 4) + 4 * (lane / size) + register % 4
    split = d.reshape(n, blocks, quads, groups, 4, size)
    return [split[:, b, q, :, r, :].reshape(n, 64) for b in range(blocks) for q in range(quads) for r in range(4)]


def registers_to_accumulator(registers: list[NDArray[Any]], size: int, blocks: int, wide: bool = False) -> NDArray[Any]:
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
