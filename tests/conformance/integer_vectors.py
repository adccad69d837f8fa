"""What each integer VALU instruction computes, in plain Python integers, and how to run it on chosen lanes.

Written from the pseudocode of the CDNA3 and CDNA4 ISA manuals, independently of the emulator's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .harness import ARCHS, FULL, LANES, State, run

GFX950 = ("gfx950",)
OLD = 0xDEADBEEF
FIRST_SOURCE, RESULT, MASK_IN, MASK_OUT = 10, 2, 20, 30


@dataclass(frozen=True)
class Vector:
    """src/dst: widths in bits, ``mask`` for a lane mask (its lane's bit is passed). keep: the upper half survives.

    fn: source values as unsigned ints -> result (any int, cut to the width) or (result, carry).
    """

    src: tuple[Any, ...]
    dst: tuple[Any, ...]
    fn: Callable[..., Any]
    archs: tuple[str, ...] = ARCHS
    keep: bool = False
    modifiers: str = ""


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) & 1 else x


def widths(text: str) -> tuple[Any, ...]:
    return tuple(w if w == "mask" else int(w) for w in text.split())


def vector(src: str, dst: str, fn: Callable[..., Any], **options: Any) -> Vector:
    return Vector(widths(src), widths(dst), fn, **options)


def register(prefix: str, first: int, bits: Any) -> str:
    count = max(1, int(bits) // 32)
    return f"{prefix}{first}" if count == 1 else f"{prefix}[{first}:{first + count - 1}]"


def spread(values: Sequence[int], bits: int) -> list[list[int]]:
    """Registers (lists of 64 words) that hold values of that width; garbage above a 16-bit value."""
    if bits == 16:
        return [[v | (0xA5A50000 + (lane << 16)) & 0xFFFF0000 for lane, v in enumerate(values)]]
    return [[v >> shift & 0xFFFFFFFF for v in values] for shift in range(0, bits, 32)]


def expected_word(vec: Vector, value: int, old: int) -> int:
    """Contents of the first result register."""
    if vec.dst[0] == 16:
        return (value & 0xFFFF) | (old & 0xFFFF0000 if vec.keep else 0)
    return value & 0xFFFFFFFF


def execute(
    name: str, vec: Vector, sources: Sequence[Any], arch: str, exec_: int = FULL, result: int = RESULT, mask: int = 0
) -> State:
    """Run one instruction. A source is 64 lane values (VGPR), ("s", value) ("k", text) for a
    constant, or None where the instruction takes the mask."""
    v: dict[int, Any] = {RESULT + i: OLD for i in range(4)}
    s: dict[int, int] = {MASK_IN: mask & 0xFFFFFFFF, MASK_IN + 1: mask >> 32}
    operands = [register("v", result, vec.dst[0])]
    operands += [register("s", MASK_OUT, 64) for w in vec.dst[1:] if w == "mask"]
    for i, (width, source) in enumerate(zip(vec.src, sources, strict=True)):
        first = FIRST_SOURCE + 4 * i
        if width == "mask":
            operands.append(register("s", MASK_IN, 64))
        elif isinstance(source, tuple) and source[0] == "k":
            operands.append(source[1])
        elif isinstance(source, tuple):
            operands.append(register("s", 40, width))
            s |= {40 + j: word[0] for j, word in enumerate(spread([source[1]], width))}
        else:
            operands.append(register("v", first, width))
            v |= {first + j: word for j, word in enumerate(spread(source, width))}
    return run(f"{name} {', '.join(operands)} {vec.modifiers}", arch=arch, v=v, s=s, exec_=exec_)


def check(
    name: str, vec: Vector, sources: Sequence[Any], arch: str, exec_: int = FULL, result: int = RESULT, mask: int = 0
) -> None:
    """Execute and compare every result register of every lane, and the carry mask, with ``vec.fn``."""
    state = execute(name, vec, sources, arch, exec_, result, mask)
    mask_bits = [mask >> i & 1 for i in range(LANES)]
    per_source = [mask_bits if w == "mask" else _lanes(x, w) for w, x in zip(vec.src, sources, strict=True)]
    carries = 0
    for lane in range(LANES):
        values = [p[lane] for p in per_source]
        old = [OLD] * 4
        if result != RESULT:  # the result overlaps the first source
            old = [word[lane] for word in spread(per_source[0], vec.src[0])] + [0] * 3
        registers = max(1, vec.dst[0] // 32)
        got = [int(state.v[result + i][lane]) for i in range(registers)]
        if not exec_ >> lane & 1:
            assert got == old[:registers], (name, lane, "an inactive lane was written")
            continue
        want = vec.fn(*values)
        value, carry = want if isinstance(want, tuple) else (want, 0)
        carries |= carry << lane
        words = [expected_word(vec, value, old[0])] + [value >> (32 * i) & 0xFFFFFFFF for i in range(1, registers)]
        assert got == words, (name, arch, lane, *([hex(x) for x in part] for part in (values, got, words)))
    if "mask" in vec.dst:
        assert state.s64(MASK_OUT) == carries, (name, arch, hex(state.s64(MASK_OUT)), hex(carries))


_CONSTANTS = {"0": 0, "7": 7, "-3": -3, "64": 64}


def _lanes(source: Any, width: int) -> list[int]:
    if isinstance(source, tuple):
        value = _CONSTANTS[source[1]] if source[0] == "k" else source[1]
        return [value & ((1 << width) - 1)] * LANES
    return list(source)


_EDGES = (0, 1, 2, 7, 8, 15, 16, 31, 32, 33, 63, 64, -1, -2, -33)


def edge_values(rng: Any, bits: int) -> list[int]:
    """64 values of that width: edges of each format, small numbers and random ones, shuffled."""
    edges = [x & ((1 << bits) - 1) for x in _EDGES]
    for b in (8, 16, 24, 32, 64):
        if b <= bits:
            edges += [(1 << (b - 1)) - 1, 1 << (b - 1), (1 << b) - 1, ((1 << b) - (1 << (b - 1))) & ((1 << bits) - 1)]
    edges += [rng.getrandbits(bits) for _ in range(LANES - len(edges))]
    values = edges[:LANES]
    rng.shuffle(values)
    return values
