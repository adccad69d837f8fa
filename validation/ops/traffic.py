"""Arithmetic of the cost stage: compulsory traffic, lines moved, matrix instructions, and the projection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from validation.operation import JsonDict
from validation.ops.axes import ELEMENT, Shape

#: Bytes of a cache line, the unit that memory moves.
LINE = 128
#: Arguments that every workgroup may read again: those reads count as often as they happen.
RESIDUAL_STREAMS = ("residual", "r2")
#: Arguments whose traffic does not grow with the rows of a call.
PER_CALL = ("weight", "w_up", "norm_weight")
#: Rows and columns of the matrix instruction.
TILE = 16
#: Columns of h that K2 multiplies at a time.
RANK_BLOCK = 32

#: What a launch does beside moving lines: bytes that its instructions ask global memory for, however often and from
#: whatever cache; vector instructions, a wave each, matrix ones apart; cycles of LDS.
WORK = ("bytes_requested", "valu", "lds_cycles")

Lines = dict[str, dict[str, int]]
Work = dict[str, int]


def compulsory_bytes(m: int, shape: Shape) -> int:
    """What ``combine_and_mix`` cannot avoid: R, y, R2 written and read once, packed, rrms, x, both weights once."""
    k, hs = shape.width, shape.hs
    row = ELEMENT * (3 * k + 2 * hs + shape.n_pad) + 4 * shape.hc
    return m * row + ELEMENT * k * (shape.n_pad + shape.r)


def launch_lines(counts: Mapping[str, Any], names: Mapping[str, str]) -> Lines:
    """Lines that one launch moved, by argument. ``names`` gives the arguments that count, and what to call each.

    Reads and writes of R and R2 are summed over workgroups, those of anything else are unique in the launch.
    """
    lines: Lines = {}
    for argument, numbers in counts["arguments"].items():
        if argument not in names:
            continue
        name = names[argument]
        suffix = "_by_workgroups" if name in RESIDUAL_STREAMS else ""
        own = lines.setdefault(name, {"read": 0, "written": 0})
        for direction in own:
            own[direction] += numbers.get(f"lines_{direction}{suffix}", 0)
    return lines


def launch_work(counts: Mapping[str, Any], mnemonics: Mapping[str, int]) -> Work:
    """The figures of :data:`WORK` of one launch."""
    vector = sum(n for name, n in mnemonics.items() if name.startswith("v_") and not name.startswith("v_mfma"))
    requested = sum(counts.get(f"global_bytes_{direction}", 0) for direction in ("read", "written"))
    return {"bytes_requested": requested, "valu": vector, "lds_cycles": counts.get("lds_cycles", 0)}


def add_work(parts: Sequence[Work], factor: int = 1) -> Work:
    """Sum over launches of a call with ``factor`` times the rows: every workgroup works alike."""
    return {name: factor * sum(part[name] for part in parts) for name in WORK}


def lines_again(numbers: Mapping[str, int]) -> int:
    """Lines of one argument that a launch read more than once: in another workgroup, or again in the same one."""
    once, asked = numbers.get("lines_read", 0), numbers.get("bytes_read", 0)
    return max(numbers.get("lines_read_by_workgroups", 0), -(-asked // LINE)) - once


def add_lines(parts: Sequence[Lines]) -> Lines:
    """Sum over launches, by argument."""
    total: Lines = {}
    for part in parts:
        for name, numbers in part.items():
            own = total.setdefault(name, {"read": 0, "written": 0})
            for direction, count in numbers.items():
                own[direction] += count
    return total


def scale_lines(lines: Lines, factor: int) -> Lines:
    """Lines of a call with ``factor`` times the rows."""
    return {
        name: {d: n * (1 if name in PER_CALL else factor) for d, n in numbers.items()}
        for name, numbers in lines.items()
    }


def moved_bytes(lines: Lines) -> int:
    """Bytes behind lines."""
    return LINE * sum(n for numbers in lines.values() for n in numbers.values())


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class MatrixWork:
    """16x16 matrix instructions of a call: ``due`` in all, and the share that each padding takes."""

    due: int
    padding: dict[str, float] = field(default_factory=dict)


def k1_matrix(m: int, rows: int, shape: Shape, live: int, mfma_k: int) -> MatrixWork:
    """Matrix instructions of a tiled K1 over tiles of ``rows``: row and column padding named."""
    padded, columns = _up(m, rows), _up(live, TILE)
    due = padded // TILE * (columns // TILE) * (shape.width // mfma_k)
    return MatrixWork(due, {"rows": padded / m - 1, "columns": columns / live - 1})


def k2_matrix(m: int, rows: int, shape: Shape, mfma_k: int) -> MatrixWork:
    """Matrix instructions of K2 over blocks of ``rows``: row and rank padding named."""
    padded, rank = _up(m, rows), _up(shape.r, RANK_BLOCK)
    due = padded // TILE * (shape.width // TILE) * (rank // mfma_k)
    return MatrixWork(due, {"rows": padded / m - 1, "rank": rank / shape.r - 1})


def matrix_flops(instructions: int, mfma_k: int) -> int:
    """Floating-point operations of 16x16 matrix instructions, a multiply-add being two."""
    return instructions * 2 * TILE * TILE * mfma_k


def projection(stages: Sequence[tuple[int, int]], bytes_per_s: float, flops_per_s: float) -> JsonDict:
    """A roofline: each launch takes what the slower of memory and matrix units takes. ``stages``: (bytes, flops).

    A model of peak rates, no measurement: it knows no latency, launch overhead, occupancy or L2.
    """
    memory = [1e6 * moved / bytes_per_s for moved, _ in stages]
    matrix = [1e6 * flops / flops_per_s for _, flops in stages]
    return {
        "kind": "projection",
        "memory_us": sum(memory),
        "matrix_us": sum(matrix),
        "total_us": sum(map(max, memory, matrix)),
    }
