"""Pairs of kernels: one that overflows, and the same one fixed (or bounded). Written for these tests.

A pair is a name, a language, the parameters, the overflowing body, and the fixed body. The line of the overflow is
marked ``#!``.
"""

# ruff: noqa: E501 - a kernel body stands on one line of the table

from __future__ import annotations

from typing import NamedTuple


class Pair(NamedTuple):
    """An overflow and its twin."""

    name: str
    language: str
    parameters: str
    bad: str
    good: str
    before: str = ""  # what stands above the kernel, in both


_HEADS = {
    "triton": "import triton\nimport triton.language as tl\n\n",
    "gluon": "from triton.experimental import gluon\nfrom triton.experimental.gluon import language as gl\n\n",
    "flydsl": "import flydsl.compiler as flyc\nimport flydsl.expr as fx\nfrom flydsl.expr import arith, buffer_ops, rocdl\n\n",
}
_DECORATORS = {"triton": "@triton.jit", "gluon": "@gluon.jit", "flydsl": "@flyc.kernel"}


def source(pair: Pair, body: str) -> str:
    """A module with the pair's kernel around `body`."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    above = f"{pair.before.strip()}\n\n" if pair.before else ""
    head, decorator = _HEADS[pair.language], _DECORATORS[pair.language]
    return f"{head}{above}{decorator}\ndef kernel({pair.parameters}):\n{lines}\n"


_ROW = "x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr"
_COLS = "cols = tl.arange(0, BLOCK)\n"


def _row(name: str, bad: str, good: str, parameters: str = _ROW, before: str = "") -> Pair:
    return Pair(name, "triton", parameters, _COLS + bad, _COLS + good, before)


TRITON = [
    _row(
        "program id times stride",
        "row = tl.program_id(0)\ntl.load(x_ptr + row * stride + cols)  #!",
        "row = tl.program_id(0).to(tl.int64)\ntl.load(x_ptr + row * stride + cols)",
    ),
    _row(
        "a token of a head of a sequence, heads before tokens",
        "b, h, t = tl.program_id(2), tl.program_id(1), tl.program_id(0)\ntl.load(x_ptr + ((b * H + h) * T + t) * D + tl.arange(0, D))  #!",
        "b, h, t = tl.program_id(2).to(tl.int64), tl.program_id(1), tl.program_id(0)\ntl.load(x_ptr + ((b * H + h) * T + t) * D + tl.arange(0, D))",
        "x_ptr, H, T, D: tl.constexpr, BLOCK: tl.constexpr",
    ),
    _row(
        "counter of a while loop",
        "row = 0\nwhile row < n_cols:\n    tl.load(x_ptr + row * stride + cols)  #!\n    row += 1",
        "row = 0\nwhile row < n_cols:\n    tl.load(x_ptr + row.to(tl.int64) * stride + cols)\n    row += 1",
    ),
    _row(
        "counter of a while loop from a 64-bit zero",
        "at = 0\nrow = 0\nwhile row < n_cols:\n    tl.load(x_ptr + at + cols)\n    at += stride  #!\n    row = row + 1",
        "at = tl.full((), 0, tl.int64)\nrow = 0\nwhile row < n_cols:\n    tl.load(x_ptr + at + cols)\n    at += stride\n    row = row + 1",
    ),
    _row(
        "turns of a while loop by its step",
        "row = 0\nwhile row < n_cols:\n    tl.load(x_ptr + row * stride + cols)  #!\n    row += BLOCK",
        "k = 0\nwhile k < n_cols:\n    tl.load(x_ptr + k + cols)\n    k += BLOCK",
    ),
    _row(
        "pointer increment",
        "row = tl.program_id(0)\nx_ptr += row * stride  #!\ntl.load(x_ptr + cols)",
        "row = tl.program_id(0).to(tl.int64)\nx_ptr += row * stride\ntl.load(x_ptr + cols)",
    ),
    _row(
        "widened after the product",
        "row = tl.program_id(0)\noffset = (row * stride).to(tl.int64)  #!\ntl.load(x_ptr + offset + cols)",
        "row = tl.program_id(0)\noffset = row.to(tl.int64) * stride\ntl.load(x_ptr + offset + cols)",
    ),
    _row(
        "cast function on the stride",
        "row = tl.program_id(0)\ntl.store(y_ptr + stride * row + cols, 0.0)  #!",
        "row = tl.program_id(0)\ntl.store(y_ptr + tl.cast(stride, tl.int64) * row + cols, 0.0)",
    ),
    _row(
        "cast method",
        "row = tl.program_id(0).cast(tl.int32)\ntl.load(x_ptr + row * stride)  #!",
        "row = tl.program_id(0).cast(tl.int64)\ntl.load(x_ptr + row * stride)",
    ),
    _row(
        "cast by keyword",
        "row = tl.program_id(axis=0)\ntl.load(x_ptr + row * stride)  #!",
        "row = tl.program_id(axis=0)\ntl.load(x_ptr + tl.cast(row, dtype=tl.int64) * stride)",
    ),
    _row(
        "cast back before the product",
        "row = tl.program_id(0).to(tl.int64).to(tl.int32)\ntl.load(x_ptr + row * stride)  #!",
        "row = tl.program_id(0).to(tl.int32).to(tl.int64)\ntl.load(x_ptr + row * stride)",
    ),
    _row(
        "hoisted offset",
        "row = tl.program_id(0)\nstart = row * stride  #!\nend = start + n_cols\ntl.load(x_ptr + end)",
        "row = tl.program_id(0)\nwide = row.to(tl.int64)\nstart = wide * stride\nend = start + n_cols\ntl.load(x_ptr + end)",
    ),
    _row(
        "masked rows and columns",
        "rows = tl.program_id(0) * BLOCK + cols\nmask = rows[:, None] < M\ntl.load(x_ptr + rows[:, None] * N + cols, mask=mask)  #!",
        "rows = tl.program_id(0) * BLOCK + cols\nmask = rows[:, None] < M\n"
        "tl.load(x_ptr + rows[:, None].to(tl.int64) * N + cols, mask=mask)",
        "x_ptr, M, N, BLOCK: tl.constexpr",
    ),
    _row(
        "wrapped rows of a GEMM",
        "rows = (tl.program_id(0) * BLOCK + cols) % M\ntl.load(x_ptr + rows[:, None] * stride_am)  #!",
        "rows = tl.cast((tl.program_id(0) * BLOCK + cols) % M, tl.int64)\ntl.load(x_ptr + rows[:, None] * stride_am)",
        "x_ptr, M, stride_am, BLOCK: tl.constexpr",
    ),
    _row(
        "flat elementwise",
        "offsets = tl.program_id(0) * BLOCK + cols  #!\ntl.load(x_ptr + offsets, mask=offsets < n_elements)",
        "offsets = tl.program_id(0).to(tl.int64) * BLOCK + cols\ntl.load(x_ptr + offsets, mask=offsets < n_elements)",
        "x_ptr, n_elements, BLOCK: tl.constexpr",
    ),
    _row(
        "loaded index",
        "slot = tl.load(y_ptr + tl.program_id(0))\ntl.load(x_ptr + slot * stride + cols)  #!",
        "slot = tl.load(y_ptr + tl.program_id(0)).to(tl.int64)\ntl.load(x_ptr + slot * stride + cols)",
    ),
    _row(
        "paged cache",
        "page = tl.load(y_ptr + tl.program_id(0))\ntl.load(x_ptr + page * PAGE * stride + cols)  #!",
        "page = tl.load(y_ptr + tl.program_id(0)).to(tl.int64)\ntl.load(x_ptr + page * PAGE * stride + cols)",
        "x_ptr, y_ptr, stride, PAGE: tl.constexpr, BLOCK: tl.constexpr",
    ),
    _row(
        "three factors",
        "chunk = tl.program_id(1)\ntl.load(x_ptr + chunk * chunk_size * stride + cols)  #!",
        "chunk = tl.program_id(1).to(tl.int64)\ntl.load(x_ptr + chunk * chunk_size * stride + cols)",
        "x_ptr, chunk_size, stride, BLOCK: tl.constexpr",
    ),
    _row(
        "atomic",
        "row = tl.program_id(0)\ntl.atomic_add(x_ptr + row * stride, 1)  #!",
        "row = tl.program_id(0)\ntl.atomic_add(x_ptr + row.to(tl.int64) * stride, 1)",
    ),
    _row(
        "block pointer base",
        "row = tl.program_id(0)\np = tl.make_block_ptr(x_ptr + row * stride, (n_cols,), (1,), (0,), (64,), (0,))  #!\ntl.load(p)",
        "row = tl.program_id(0).to(tl.int64)\np = tl.make_block_ptr(x_ptr + row * stride, (n_cols,), (1,), (0,), (64,), (0,))\n"
        "tl.load(p)",
    ),
    _row(
        "loop over rows",
        "for row in range(0, n_rows):\n    tl.load(x_ptr + row * stride + cols)  #!",
        "for row in range(0, n_rows):\n    tl.load(x_ptr + tl.cast(row, tl.int64) * stride + cols)",
        "x_ptr, n_rows, stride, BLOCK: tl.constexpr",
    ),
    _row(
        "offset grows in a loop",
        "offset = 0\nfor _ in range(0, n_rows):\n    tl.load(x_ptr + offset + cols)\n    offset += stride  #!",
        "for _ in range(0, n_rows):\n    tl.load(x_ptr + cols)\n    x_ptr += stride",
        "x_ptr, n_rows, stride, BLOCK: tl.constexpr",
    ),
    _row(
        "rows of a block, to the end",
        "first = tl.program_id(0) * rows_per_program\nx_ptr += first * stride  #!\ntl.load(x_ptr + cols)",
        "block = tl.program_id(0).to(tl.int64)\nfirst = block * rows_per_program\nx_ptr += first * stride\ntl.load(x_ptr + cols)",
        "x_ptr, rows_per_program, stride, BLOCK: tl.constexpr",
    ),
    _row(
        "batch and sequence",
        "batch, t = tl.program_id(1), tl.program_id(0)\ntl.load(x_ptr + (batch * T + t) * HIDDEN + cols)  #!",
        "batch, t = tl.program_id(1), tl.program_id(0).to(tl.int64)\ntl.load(x_ptr + (batch * T + t) * HIDDEN + cols)",
        "x_ptr, T, HIDDEN: tl.constexpr, BLOCK: tl.constexpr",
    ),
    _row(
        "batch stride of a sequence tensor",
        "b = tl.program_id(1)\ntl.load(q + b * stride_qb + cols[:, None] * stride_qm)  #!",
        "b = tl.program_id(1).to(tl.int64)\ntl.load(q + b * stride_qb + cols[:, None] * stride_qm)",
        "q, stride_qb, stride_qm, BLOCK: tl.constexpr",
    ),
    _row(
        "where keeps the overflow",
        "row = tl.program_id(0)\noffset = tl.where(row > 0, row * stride, 0)  #!\ntl.load(x_ptr + offset)",
        "row = tl.program_id(0).to(tl.int64)\noffset = tl.where(row > 0, row * stride, 0)\ntl.load(x_ptr + offset)",
    ),
    _row(
        "run-time branch, one side widened",
        "row = tl.program_id(0)\nif row > 4:\n    off = row.to(tl.int64) * stride\nelse:\n    off = row * stride  #!\ntl.load(x_ptr + off)",
        "row = tl.program_id(0)\nif LONG:\n    off = row.to(tl.int64) * stride\nelse:\n    off = row * stride\ntl.load(x_ptr + off)",
        "x_ptr, stride, LONG: tl.constexpr, BLOCK: tl.constexpr",
    ),
    _row(
        "guard without a widening",
        "if FLAG:\n    cols = cols + 1\nrow = tl.program_id(0)\ntl.load(x_ptr + row * stride)  #!",
        "row = tl.program_id(0)\nif WITHIN_2GB:\n    tl.load(x_ptr + row * stride)\nelse:\n    tl.load(x_ptr + row.to(tl.int64) * stride)",
        "x_ptr, stride, FLAG: tl.constexpr, WITHIN_2GB: tl.constexpr, BLOCK: tl.constexpr",
    ),
    _row(
        "int64 parameter",
        "tl.load(x_ptr + tl.program_id(0) * stride)  #!",
        "tl.load(x_ptr + tl.program_id(0) * wide_stride)",
        "x_ptr, stride, wide_stride: tl.int64, BLOCK: tl.constexpr",
    ),
    _row(
        "masked index instead of a large one",
        "bucket = tl.load(y_ptr + cols)\ntl.load(x_ptr + bucket * stride)  #!",
        "bucket = tl.load(y_ptr + cols) & 63\ntl.load(x_ptr + bucket * stride)",
    ),
    _row(
        "modulo bounds",
        "row = tl.program_id(0)\ntl.load(x_ptr + row * stride)  #!",
        "row = tl.program_id(0) % 16\ntl.load(x_ptr + row * stride)",
    ),
    _row(
        "minimum bounds",
        "row = tl.program_id(0)\ntl.load(x_ptr + tl.minimum(row, n_rows) * stride)  #!",
        "row = tl.program_id(0)\ntl.load(x_ptr + tl.minimum(row, 255) * stride)",
        "x_ptr, n_rows, stride, BLOCK: tl.constexpr",
    ),
    _row(
        "columns of a block, not rows of a tensor",
        "row = tl.program_id(0)\ntl.load(x_ptr + row * stride)  #!",
        "tl.load(x_ptr + cols * stride)",
    ),
    _row(
        "shift by a constant",
        "row = tl.program_id(0)\ntl.load(x_ptr + (row << 14))  #!",
        "row = tl.program_id(0)\ntl.load(x_ptr + (row.to(tl.int64) << 14))",
    ),
    _row(
        "an index cut to 32 bits",
        "row = tl.program_id(0).to(tl.int64)\noffset = (row * stride).to(tl.int32)  #!\ntl.load(x_ptr + offset)",
        "row = tl.program_id(0).to(tl.int64)\noffset = row * stride\ntl.load(x_ptr + offset)",
    ),
    _row(
        "device function given a narrow row",
        "row_pointer(x_ptr, tl.program_id(0), stride)",
        "row_pointer(x_ptr, tl.program_id(0).to(tl.int64), stride)",
        before="@triton.jit\ndef row_pointer(p, row, step):\n    return tl.load(p + row * step)  #!",
    ),
    _row(
        "device function that returns an offset",
        "tl.load(x_ptr + offset_of(tl.program_id(0), stride))",
        "tl.load(x_ptr + offset_of(tl.cast(tl.program_id(0), tl.int64), stride))",
        before="@triton.jit\ndef offset_of(row, step):\n    return row * step  #!",
    ),
    _row(
        "device function widens by itself",
        "tl.load(x_ptr + narrow(tl.program_id(0)) * stride)  #!",
        "tl.load(x_ptr + wide(tl.program_id(0)) * stride)",
        before="@triton.jit\ndef wide(row):\n    return row.to(tl.int64)\n\n@triton.jit\ndef narrow(row):\n    return row + 1",
    ),
    _row(
        "two levels of device functions",
        "outer(x_ptr, tl.program_id(0), stride)",
        "outer(x_ptr, tl.program_id(0).to(tl.int64), stride)",
        before="@triton.jit\ndef inner(p, i, s):\n    return tl.load(p + i * s)  #!\n\n"
        "@triton.jit\ndef outer(p, i, s):\n    return inner(p, i + 1, s)",
    ),
    _row(
        "constant from the module",
        "tl.load(x_ptr + tl.program_id(0) * WIDTH)  #!",
        "tl.load(x_ptr + tl.program_id(0) * NARROW)",
        before="WIDTH = 8192\nNARROW = 64",
    ),
]

_PTR = "x: fx.Pointer, y: fx.Pointer, tokens: fx.Int32, stride: fx.Int32, wide_stride: fx.Int64"
FLYDSL = [
    Pair(
        "block id times stride",
        "flydsl",
        _PTR,
        "row = fx.block_idx.x\nfx.generic_load(x + row * stride, count=8)  #!",
        "row = fx.block_idx.x\nfx.generic_load(x + fx.Int64(row) * stride, count=8)",
    ),
    Pair(
        "64-bit stride parameter",
        "flydsl",
        _PTR,
        "fx.generic_store(x + fx.block_idx.x * stride, 0)  #!",
        "fx.generic_store(x + fx.block_idx.x * wide_stride, 0)",
    ),
    Pair(
        "closure constant",
        "flydsl",
        _PTR,
        "row = fx.block_idx.x\nfx.generic_load(x + row * WIDTH)  #!",
        "row = fx.Int64(fx.block_idx.x)\nfx.generic_load(x + row * WIDTH)",
        "HC, HS = 4, 7168\nWIDTH = HC * HS",
    ),
    Pair(
        "nested helper over a closure",
        "flydsl",
        _PTR,
        "row = fx.block_idx.x\ndef at(column):\n    return x + (row * stride + column)  #!\nfx.generic_load(at(8))",
        "row = fx.Int64(fx.block_idx.x)\ndef at(column):\n    return x + (row * stride + column)\nfx.generic_load(at(8))",
    ),
    Pair(
        "helper with an offset",
        "flydsl",
        _PTR,
        "load8(x, fx.block_idx.x * stride)  #!",
        "load8(x, fx.Int64(fx.block_idx.x) * stride)",
        "def load8(pointer, offset):\n    return fx.generic_load(pointer + offset, count=8)",
    ),
    Pair(
        "selected row",
        "flydsl",
        _PTR,
        "row = fx.block_idx.x * 16 + fx.thread_idx.x\nsafe = (row < tokens).select(row, tokens - 1)\n"
        "fx.generic_load(x + safe * stride)  #!",
        "row = fx.block_idx.x * 16 + fx.thread_idx.x\nsafe = fx.Int64((row < tokens).select(row, tokens - 1))\n"
        "fx.generic_load(x + safe * stride)",
    ),
    Pair(
        "rows in a list",
        "flydsl",
        _PTR,
        "rows = [fx.block_idx.x + i for i in range(4)]\nfor row in rows:\n    fx.generic_load(x + row * stride)  #!",
        "rows = [fx.Int64(fx.block_idx.x + i) for i in range(4)]\nfor row in rows:\n    fx.generic_load(x + row * stride)",
    ),
    Pair(
        "arith dialect",
        "flydsl",
        _PTR,
        "fx.generic_load(x + arith.muli(fx.block_idx.x, stride))  #!",
        "fx.generic_load(x + arith.muli(arith.index_cast(T.i64, fx.block_idx.x), wide_stride))",
    ),
    Pair(
        "one descriptor over all experts",
        "flydsl",
        "w: fx.Pointer, expert_ids: fx.Pointer",
        "rsrc = buffer_ops.create_buffer_resource_from_addr(fx.ptrtoint(w), num_records_bytes=experts * N * K)  #!\n"
        "e = fx.generic_load(expert_ids + fx.block_idx.x)\nbuffer_ops.buffer_load(rsrc, fx.Int64(e) * (N * K))",
        "e = fx.generic_load(expert_ids + fx.block_idx.x)\nbase = fx.ptrtoint(w) + fx.Int64(e) * (N * K)\n"
        "rsrc = buffer_ops.create_buffer_resource_from_addr(base, num_records_bytes=N * K)\nbuffer_ops.buffer_load(rsrc, 0)",
        "experts, N, K = 256, 4096, 7168",
    ),
    Pair(
        "descriptor without a size",
        "flydsl",
        _PTR,
        "p = rocdl.make_buffer_ptr(x)\nfx.generic_load(p + fx.Int64(fx.block_idx.x) * wide_stride)  #!",
        "p = rocdl.make_buffer_ptr(x + fx.Int64(fx.block_idx.x) * wide_stride)\nfx.generic_load(p + fx.thread_idx.x)",
    ),
    Pair(
        "descriptor made by a helper",
        "flydsl",
        "w: fx.Pointer",
        "rsrc = resource(w, experts * N * K)  #!\nbuffer_ops.buffer_load(rsrc, fx.thread_idx.x)",
        "rsrc = resource(w, N * K)\nbuffer_ops.buffer_load(rsrc, fx.thread_idx.x)",
        "experts, N, K = 256, 4096, 7168\n\ndef resource(pointer, size):\n"
        "    return buffer_ops.create_buffer_resource_from_addr(fx.ptrtoint(pointer), num_records_bytes=size)",
    ),
]

_GLUON = "x_ptr, y_ptr, stride, WITHIN_2GB: gl.constexpr, BLOCK: gl.constexpr"
GLUON = [
    Pair(
        "64-bit path of a cache",
        "gluon",
        _GLUON,
        "loc = gl.load(y_ptr + gl.program_id(0))\noffs = loc * stride  #!\nif WITHIN_2GB:\n"
        "    gl.amd.cdna4.buffer_load(x_ptr, offs)\nelse:\n    gl.load(x_ptr + offs)",
        "if not WITHIN_2GB:\n    stride = stride.to(gl.int64)\nloc = gl.load(y_ptr + gl.program_id(0))\noffs = loc * stride\n"
        "if WITHIN_2GB:\n    gl.amd.cdna4.buffer_load(x_ptr, offs)\nelse:\n    gl.load(x_ptr + offs)",
    ),
    Pair(
        "buffer load offsets",
        "gluon",
        _GLUON,
        "gl.amd.cdna3.buffer_load(x_ptr, gl.program_id(0) * stride)  #!",
        "gl.amd.cdna3.buffer_load(x_ptr + gl.program_id(0).to(gl.int64) * stride, gl.arange(0, BLOCK))",
    ),
    Pair(
        "stored rows",
        "gluon",
        _GLUON,
        "gl.store(x_ptr + gl.program_id(0) * stride, 0.0)  #!",
        "gl.store(x_ptr + gl.cast(gl.program_id(0), gl.int64) * stride, 0.0)",
    ),
]

PAIRS = TRITON + FLYDSL + GLUON
