"""VOPC: all predicates on all types, NaN rules, denormals by MODE, classes, EXEC and destination masks."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from validation.emulator.errors import AsmError, UnsupportedError
from validation.emulator.isa import TABLE
from validation.emulator.machine.waves import FloatMode

from .harness import ARCHS, FULL, flushing, run
from .integer_vectors import signed

INTEGERS: dict[str, Callable[[int, int], bool]] = {
    "f": lambda a, b: False,
    "lt": lambda a, b: a < b,
    "eq": lambda a, b: a == b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ne": lambda a, b: a != b,
    "ge": lambda a, b: a >= b,
    "t": lambda a, b: True,
}
#: What each float predicate says for less, equal, greater and unordered, in this order.
FLOATS: dict[str, str] = {
    "f": "0000", "lt": "1000", "eq": "0100", "le": "1100", "gt": "0010", "lg": "1010", "ge": "0110", "o": "1110",
    "u": "0001", "nge": "1001", "nlg": "0101", "ngt": "1101", "nle": "0011", "neq": "1011", "nlt": "0111",
    "tru": "1111",
}  # fmt: skip
INT_KINDS, FLOAT_KINDS = ("i16", "u16", "i32", "u32", "i64", "u64"), ("f16", "f32", "f64")
_PACK = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}


def registers(kind: str, bits: list[int], first: int) -> dict[int, Any]:
    """Lane values of that type in the registers from ``first`` on; 16-bit ones with garbage above."""
    if kind.endswith("64"):
        return {first: [b & 0xFFFFFFFF for b in bits], first + 1: [b >> 32 for b in bits]}
    return {first: [b | 0x5A5A0000 for b in bits] if kind.endswith("16") else bits}


def operand(kind: str, first: int) -> str:
    return f"v[{first}:{first + 1}]" if kind.endswith("64") else f"v{first}"


def integer_edges(width: int) -> list[int]:
    mask = (1 << width) - 1
    return [0, 1, mask >> 1, (mask >> 1) + 1, mask, mask - 1, 0x55, 0xAA]


def float_edges(kind: str) -> list[int]:
    """Bits of -inf, -2, -denormal, -0, +0, +denormal, 2, NaN."""
    to, raw = _PACK[kind]
    numbers = [struct.unpack(raw, struct.pack(to, x))[0] for x in (float("-inf"), -2.0, -0.0, 0.0, 2.0, float("nan"))]
    sign = 1 << (int(kind[1:]) - 1)
    return [*numbers[:2], sign | 1, *numbers[2:4], 1, *numbers[4:]]


def as_float(kind: str, bits: int) -> float:
    to, raw = _PACK[kind]
    return struct.unpack(to, struct.pack(raw, bits))[0]


def relation(a: float, b: float) -> int:
    return 0 if a < b else 1 if a == b else 2 if a > b else 3


def mask_of(bits: Any) -> int:
    return sum(1 << lane for lane, bit in enumerate(bits) if bit)


def compared(name: str, kind: str, a: list[int], b: list[int], arch: str, **options: Any) -> tuple[int, int, int]:
    """(VCC of the e32 form, s[4:5] of the e64 form, EXEC afterwards)."""
    v = registers(kind, a, 0) | registers(kind, b, 2)
    left, right = operand(kind, 0), operand(kind, 2)
    short = run(f"{name}_e32 vcc, {left}, {right}", arch=arch, v=v, vcc=FULL, **options)
    long = run(f"{name}_e64 s[4:5], {left}, {right}", arch=arch, v=v, s={4: 0xFFFFFFFF, 5: 0xFFFFFFFF}, **options)
    assert long.exec_ == short.exec_
    return short.vcc, long.s64(4), long.exec_


def pairs(edges: list[int]) -> tuple[list[int], list[int]]:
    both = list(itertools.product(edges, edges))
    return [a for a, _ in both], [b for _, b in both]


def expected(kind: str, predicate: str, a: list[int], b: list[int]) -> int:
    if kind in FLOAT_KINDS:
        said = FLOATS[predicate]
        return mask_of(said[relation(as_float(kind, x), as_float(kind, y))] == "1" for x, y in zip(a, b, strict=True))
    width = int(kind[1:])
    read = (lambda x: signed(x, width)) if kind[0] == "i" else (lambda x: x)
    return mask_of(INTEGERS[predicate](read(x), read(y)) for x, y in zip(a, b, strict=True))


CASES = [(p, k) for k in INT_KINDS for p in INTEGERS] + [(p, k) for k in FLOAT_KINDS for p in FLOATS]


@pytest.mark.parametrize(("predicate", "kind"), CASES)
def test_predicate(predicate: str, kind: str) -> None:
    edges = float_edges(kind) if kind in FLOAT_KINDS else integer_edges(int(kind[1:]))
    a, b = pairs(edges)
    want = expected(kind, predicate, a, b)
    for arch, exec_ in (("gfx942", FULL), ("gfx950", 0xF0F0_1234_5678_9ABC), ("gfx942", 0)):
        vcc, pair_, after = compared(f"v_cmp_{predicate}_{kind}", kind, a, b, arch, exec_=exec_)
        assert vcc == pair_ == want & exec_, "lanes that are off give 0"
        assert after == exec_


@pytest.mark.parametrize(("predicate", "kind"), CASES)
def test_cmpx_writes_both_masks(predicate: str, kind: str) -> None:
    edges = float_edges(kind) if kind in FLOAT_KINDS else integer_edges(int(kind[1:]))
    a, b = pairs(edges)
    want = expected(kind, predicate, a, b) & 0xFFFF_0000_FFFF_FF0F
    for arch in ARCHS:
        vcc, pair_, after = compared(f"v_cmpx_{predicate}_{kind}", kind, a, b, arch, exec_=0xFFFF_0000_FFFF_FF0F)
        assert vcc == pair_ == after == want


def test_every_compare_is_tested() -> None:
    rows = {m for _, m in TABLE if m.startswith("v_cmp")}
    tested = {f"v_cmp{x}_{p}_{k}" for p, k in CASES for x in ("", "x")}
    classes = {f"v_cmp{x}_class_{k}" for k in FLOAT_KINDS for x in ("", "x")}
    assert rows == tested | classes
    assert len(CASES) == 6 * 8 + 3 * 16


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_denormals_compare_as_zero_when_inputs_flush(kind: str, arch: str) -> None:
    a, b = [1, 1, 1 << (int(kind[1:]) - 1) | 1], [0, 2, 1]
    options: dict[str, Any] = {"arch": arch, "exec_": 7}
    assert compared(f"v_cmp_eq_{kind}", kind, a, b, mode=flushing(), **options)[0] == 0b111
    assert compared(f"v_cmp_lt_{kind}", kind, a, b, mode=flushing(), **options)[0] == 0
    assert compared(f"v_cmp_eq_{kind}", kind, a, b, **options)[0] == 0
    assert compared(f"v_cmp_lt_{kind}", kind, a, b, **options)[0] == 0b110
    # bit 0 of the field allows input denormals; bit 1 is about results only
    assert compared(f"v_cmp_eq_{kind}", kind, a, b, mode=FloatMode(denorm_32=1, denorm_16_64=1), **options)[0] == 0
    assert compared(f"v_cmp_eq_{kind}", kind, a, b, mode=FloatMode(denorm_32=2, denorm_16_64=2), **options)[0] == 7


CLASS_BITS = {
    "f16": [0x7D00, 0x7E00, 0xFC00, 0xBC00, 0x8001, 0x8000, 0x0000, 0x0001, 0x3C00, 0x7C00],
    "f32": [
        0x7FA00000, 0x7FC00000, 0xFF800000, 0xBF800000, 0x80000001, 0x80000000, 0, 1, 0x3F800000, 0x7F800000,
    ],
    "f64": [
        0x7FF4 << 48, 0x7FF8 << 48, 0xFFF0 << 48, 0xBFF0 << 48, (0x8000 << 48) + 1, 0x8000 << 48, 0, 1, 0x3FF0 << 48,
        0x7FF0 << 48,
    ],
}  # fmt: skip


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", FLOAT_KINDS)
def test_class_is_one_bit_of_ten(kind: str, arch: str) -> None:
    """Bits: sNaN, qNaN, -inf, -normal, -denormal, -0, +0, +denormal, +normal, +inf. MODE flushes nothing here."""
    v = registers(kind, CLASS_BITS[kind] + [0] * 54, 0)
    for bit in range(10):
        for mode in (None, flushing()):
            name, value = f"v_cmp_class_{kind}", operand(kind, 0)
            body = [f"{name}_e32 vcc, {value}, v4", f"{name}_e64 s[4:5], {value}, s6"]
            state = run(body, arch=arch, v={**v, 4: 1 << bit}, s={6: 0x3FF ^ (1 << bit)}, exec_=0x3FF, mode=mode)
            assert state.vcc == 1 << bit
            assert state.s64(4) == 0x3FF ^ (1 << bit)
    state = run(f"v_cmpx_class_{kind}_e32 vcc, {operand(kind, 0)}, v4", arch=arch, v={**v, 4: 0x3}, exec_=0x3FE)
    assert state.vcc == state.exec_ == 0b10


@pytest.mark.parametrize("arch", ARCHS)
def test_class_sees_modifiers(arch: str) -> None:
    state = run("v_cmp_class_f32_e64 s[4:5], -|v0|, v1", arch=arch, v={0: 0x3F800000, 1: 1 << 3})
    assert state.s64(4) == FULL


@pytest.mark.parametrize("arch", ARCHS)
def test_source_modifiers_and_constants(arch: str) -> None:
    v = {0: 0xC0000000, 1: 0x40000000}
    assert run("v_cmp_eq_f32_e64 s[4:5], |v0|, v1", arch=arch, v=v).s64(4) == FULL
    assert run("v_cmp_eq_f32_e64 s[4:5], v0, -v1", arch=arch, v=v).s64(4) == FULL
    assert run("v_cmp_lt_f32_e32 vcc, -4.0, v0", arch=arch, v=v).vcc == FULL
    assert run("v_cmp_gt_f64_e32 vcc, 1.0, v[0:1]", arch=arch, v={0: 0, 1: 0x3FE00000}).vcc == FULL
    assert run("v_cmp_eq_u64_e32 vcc, -1, v[0:1]", arch=arch, v={0: 0xFFFFFFFF, 1: 0xFFFFFFFF}).vcc == FULL
    state = run("v_cmp_gt_i64_e64 s[4:5], s[6:7], v[0:1]", arch=arch, v={0: 0, 1: 0x80000000}, s={6: 0, 7: 0})
    assert state.s64(4) == FULL
    assert run("v_cmp_eq_u16_e32 vcc, 0x1234, v0", arch=arch, v={0: 0xFFFF1234}).vcc == FULL
    assert run("v_cmp_eq_f16_e32 vcc, 1.0, v0", arch=arch, v={0: 0xFFFF3C00}).vcc == FULL


@pytest.mark.parametrize("arch", ARCHS)
def test_cmpx_into_exec_itself(arch: str) -> None:
    state = run("v_cmpx_gt_u32_e64 exec, 3, v0", arch=arch, v={0: np.arange(64)}, exec_=0xFE)
    assert state.exec_ == 0b110


def test_no_dpp_and_no_clamp() -> None:
    with pytest.raises(AsmError, match="no DPP form"):
        run("v_cmp_eq_u32_dpp vcc, v0, v1 row_shl:1 row_mask:0xf bank_mask:0xf")
    with pytest.raises(UnsupportedError, match="clamp"):
        run("v_cmp_eq_f32_e64 vcc, v0, v1 clamp")
