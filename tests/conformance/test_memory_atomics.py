"""Read-modify-write: every operation in GLOBAL, FLAT, MUBUF and DS, against a lane-by-lane model in Python."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from validation.emulator.errors import UnsupportedError
from validation.emulator.machine.waves import FloatMode
from validation.emulator.program.operands import SHARED_APERTURE

from .harness import ARCHS, FULL, flushing, run
from .memory_support import OLD, Arena, arena, is_active, span, split

SPARSE = 0x8001_0F0F_1234_FF7E
Model = Callable[..., int]


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def as_float(x: int, bits: int) -> float:
    return struct.unpack("<f" if bits == 32 else "<d", x.to_bytes(bits // 8, "little"))[0]


def float_sum(a: int, b: int, bits: int) -> int:
    dtype = torch.float32 if bits == 32 else torch.float64
    whole = torch.int32 if bits == 32 else torch.int64
    first, second = (torch.tensor([signed(x, bits)], dtype=whole).view(dtype) for x in (a, b))
    return int((first + second).view(whole)) & ((1 << bits) - 1)


def packed_sum(a: int, b: int, dtype: torch.dtype) -> int:
    halves = [
        torch.tensor([signed(x & 0xFFFF, 16), signed(x >> 16, 16)], dtype=torch.int16).view(dtype) for x in (a, b)
    ]
    low, high = (halves[0] + halves[1]).view(torch.int16).tolist()
    return (low & 0xFFFF) | ((high & 0xFFFF) << 16)


def integer_models(bits: int) -> dict[str, Model]:
    mask = (1 << bits) - 1
    return {
        "add": lambda m, x: (m + x) & mask,
        "sub": lambda m, x: (m - x) & mask,
        "smin": lambda m, x: x if signed(x, bits) < signed(m, bits) else m,
        "umin": min,
        "smax": lambda m, x: x if signed(x, bits) >= signed(m, bits) else m,
        "umax": max,
        "and": lambda m, x: m & x,
        "or": lambda m, x: m | x,
        "xor": lambda m, x: m ^ x,
        "inc": lambda m, x: 0 if m >= x else m + 1,
        "dec": lambda m, x: x if m == 0 or m > x else m - 1,
        "swap": lambda m, x: x,
        "cmpswap": lambda m, x, compared: x if m == compared else m,
        "rsub": lambda m, x: (x - m) & mask,
        "mskor": lambda m, value, select: (m & ~select & mask) | value,
        "wrap": lambda m, back, limit: m - limit if m >= limit else (m + back) & mask,
    }


def float_models(bits: int) -> dict[str, Model]:
    return {
        "add": lambda m, x: float_sum(m, x, bits),
        "min": lambda m, x: x if as_float(x, bits) < as_float(m, bits) else m,
        "max": lambda m, x: x if as_float(x, bits) > as_float(m, bits) else m,
        "cmpst": lambda m, x, compared: x if as_float(m, bits) == as_float(compared, bits) else m,
    }


@dataclass(frozen=True)
class Case:
    """One operation: its mnemonic's end for memory and for LDS (empty where there is none), model, width, operands."""

    memory: str
    lds: str
    model: Model
    bits: int = 32
    operands: int = 1
    kind: str = "int"


I32, I64, F32, F64 = integer_models(32), integer_models(64), float_models(32), float_models(64)
LDS_NAMES = {
    "smin": "min_i{}",
    "smax": "max_i{}",
    "umin": "min_u{}",
    "umax": "max_u{}",
    "and": "and_b{}",
    "or": "or_b{}",
    "xor": "xor_b{}",
    "cmpswap": "cmpst_b{}",
    "swap": "",
}
CASES = [
    Case(name + x2, LDS_NAMES.get(name, name + "_u{}").format(bits), models[name], bits, 1 + (name == "cmpswap"))
    for bits, models, x2 in ((32, I32, ""), (64, I64, "_x2"))
    for name in ("add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec", "swap", "cmpswap")
]
CASES += [
    Case("", "rsub_u32", I32["rsub"]),
    Case("", "rsub_u64", I64["rsub"], 64),
    Case("", "mskor_b32", I32["mskor"], 32, 2),
    Case("", "mskor_b64", I64["mskor"], 64, 2),
    Case("add_f32", "add_f32", F32["add"], 32, 1, "f32"),
    Case("add_f64", "add_f64", F64["add"], 64, 1, "f64"),
    Case("min_f64", "min_f64", F64["min"], 64, 1, "f64"),
    Case("max_f64", "max_f64", F64["max"], 64, 1, "f64"),
    Case("", "min_f32", F32["min"], 32, 1, "f32"),
    Case("", "max_f32", F32["max"], 32, 1, "f32"),
    Case("", "cmpst_f32", F32["cmpst"], 32, 2, "f32"),
    Case("", "cmpst_f64", F64["cmpst"], 64, 2, "f64"),
    Case("pk_add_f16", "pk_add_f16", lambda m, x: packed_sum(m, x, torch.float16), 32, 1, "f16"),
    Case("pk_add_bf16", "pk_add_bf16", lambda m, x: packed_sum(m, x, torch.bfloat16), 32, 1, "bf16"),
]
MEMORY = [c for c in CASES if c.memory]
IN_LDS = [c for c in CASES if c.lds]
#: How many elements the 64 lanes share.
SPREADS = (64, 7, 1)


def sample(kind: str, bits: int, count: int, seed: int) -> list[int]:
    """Values with the edges first; floats without NaN (their own test) but with denormals, infinities, signed zeros."""
    rng = np.random.default_rng(seed)
    if kind == "int":
        top = 1 << bits
        values = [0, 1, top - 1, top // 2, top // 2 - 1, 5, 5, 6]
        return (values + [int(x) % top for x in rng.integers(0, 1 << 62, count)])[:count]
    if kind in ("f16", "bf16"):
        dtype = torch.float16 if kind == "f16" else torch.bfloat16
        halves = (torch.tensor(rng.standard_normal(2 * count) * 50).to(dtype)).view(torch.int16).tolist()
        halves[:4] = [1, -32768, 0x0080, 0x7BFF if kind == "f16" else 0x7F7F]
        return [(halves[2 * i] & 0xFFFF) | ((halves[2 * i + 1] & 0xFFFF) << 16) for i in range(count)]
    code = "<f" if bits == 32 else "<d"
    numbers = [0.0, -0.0, 1e-40 if bits == 32 else 5e-324, -3e-39, 1e30, float("inf"), 1.5, -2.0]
    numbers += [float(x) for x in rng.standard_normal(count) * 10.0 ** rng.integers(-6, 6, count)]
    return [int.from_bytes(struct.pack(code, x), "little") for x in numbers[:count]]


def arrange(case: Case, spread: int, exec_: int) -> tuple[bytes, list[int], list[list[int]], bytes, list[int]]:
    """(memory before, element of each lane, operands, memory after, old values)."""
    size = case.bits // 8
    before = sample(case.kind, case.bits, 64, 1)[::-1]
    element = [(lane * 5) % spread for lane in range(64)]
    operands = [sample(case.kind, case.bits, 64, 2 + i) for i in range(case.operands)]
    if case.operands == 2:  # make a third of the comparisons succeed
        operands[1] = [before[element[i]] if i % 3 == 0 else x for i, x in enumerate(operands[1])]
    after, old = list(before), [0] * 64
    for lane in range(64):
        if is_active(exec_, lane):
            old[lane] = after[element[lane]]
            after[element[lane]] = case.model(old[lane], *[x[lane] for x in operands])
    raw = [b"".join(x.to_bytes(size, "little") for x in values) for values in (before, after)]
    return raw[0], element, operands, raw[1], old


def register_pairs(first: int, values: list[int], bits: int) -> dict[int, np.ndarray]:
    low, high = split(values)
    return {first: low} if bits == 32 else {first: low, first + 1: high}


def result(state: object, first: int, bits: int) -> list[int]:
    v = state.v  # type: ignore[attr-defined]
    return [int(x) for x in v[first]] if bits == 32 else [int(x) for x in state.v64(first)]  # type: ignore[attr-defined]


def filled(raw: bytes) -> Arena:
    memory = arena(len(raw))
    memory.tensor.copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8))
    return memory


def expect(old: list[int], exec_: int, bits: int) -> list[int]:
    untouched = OLD if bits == 32 else OLD | OLD << 32
    return [x if is_active(exec_, lane) else untouched for lane, x in enumerate(old)]


@pytest.mark.parametrize(
    ("form", "arch"),
    [(form, arch) for form in ("global", "global_off", "flat", "flat_lds", "buffer") for arch in ARCHS],
)
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("case", MEMORY, ids=lambda c: c.memory)
def test_memory_atomic(case: Case, form: str, returns: bool, arch: str) -> None:
    if (arch, f"{form}_atomic_{case.memory}") == ("gfx942", "buffer_atomic_pk_add_bf16"):
        with pytest.raises(UnsupportedError, match="only on gfx950"):
            run("buffer_atomic_pk_add_bf16 v10, v1, s[4:7], 0 offen", arch=arch)
        return
    for spread, exec_ in ((64, FULL), (7, SPARSE), (1, FULL)):
        raw, element, operands, after, old = arrange(case, spread, exec_)
        memory, width = filled(raw), case.bits // 32
        places = [e * case.bits // 8 for e in element]
        base = SHARED_APERTURE if form == "flat_lds" else memory.address
        low, high = split([base + p - (16 if form == "global_off" else 0) for p in places])
        v: dict[int, Any] = {1: places, 2: low, 3: high, 30: OLD, 31: OLD}
        for i, values in enumerate(operands):
            v.update(register_pairs(10 + width * i, values, case.bits))
        data, dst, sc0 = span(10, width * case.operands), span(30, width), " sc0" if returns else ""
        shown = f"{dst}, " if returns else ""
        line = {
            "global": f"global_atomic_{case.memory} {shown}v1, {data}, s[2:3]{sc0}",
            "global_off": f"global_atomic_{case.memory} {shown}v[2:3], {data}, off offset:16{sc0}",
            "flat": f"flat_atomic_{case.memory} {shown}v[2:3], {data}{sc0}",
            "flat_lds": f"flat_atomic_{case.memory} {shown}v[2:3], {data}{sc0}",
            "buffer": f"buffer_atomic_{case.memory} {data}, v1, s[4:7], 0 offen{sc0}",
        }[form]
        state = run(
            line,
            arch=arch,
            space=memory.space,
            v=v,
            exec_=exec_,
            lds=raw,
            s={**memory.scalars(2), **memory.descriptor(4)},
        )
        assert (state.lds.tobytes()[: len(after)] if form == "flat_lds" else memory.content) == after
        got = result(state, 10 if form == "buffer" else 30, case.bits)
        if returns and form == "buffer":
            wanted = [x if is_active(exec_, i) else operands[0][i] for i, x in enumerate(old)]
        elif form == "buffer":
            wanted = operands[0]
        else:
            wanted = expect(old, exec_ if returns else 0, case.bits)
        assert got == wanted
        assert not state.findings


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("case", IN_LDS, ids=lambda c: c.lds)
def test_lds_atomic(case: Case, returns: bool, arch: str) -> None:
    name, tag = case.lds.rsplit("_", 1)
    for spread, exec_ in ((64, FULL), (7, SPARSE), (1, FULL)):
        raw, element, operands, after, old = arrange(case, spread, exec_)
        width = case.bits // 32
        v: dict[int, Any] = {1: [e * case.bits // 8 for e in element], 30: OLD, 31: OLD}
        # in the text of a compare-and-store or a masked or, the compared value or the mask comes first
        shown = operands[::-1]
        for i, values in enumerate(shown):
            v.update(register_pairs(10 + width * i, values, case.bits))
        data = ", ".join(span(10 + width * i, width) for i in range(case.operands))
        line = f"ds_{name}_rtn_{tag} {span(30, width)}, v1, {data}" if returns else f"ds_{name}_{tag} v1, {data}"
        state = run(line, arch=arch, lds=raw, v=v, exec_=exec_)
        assert state.lds.tobytes()[: len(after)] == after
        assert result(state, 30, case.bits) == expect(old, exec_ if returns else 0, case.bits)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("wrxchg_rtn_b32", Case("", "", I32["swap"])),
        ("wrxchg_rtn_b64", Case("", "", I64["swap"], 64)),
        ("wrap_rtn_b32", Case("", "", I32["wrap"], 32, 2)),
    ],
)
def test_lds_operations_that_only_return(name: str, case: Case, arch: str) -> None:
    for spread in SPREADS:
        raw, element, operands, after, old = arrange(case, spread, FULL)
        width = case.bits // 32
        v: dict[int, Any] = {1: [e * case.bits // 8 for e in element]}
        for i, values in enumerate(operands[::-1]):
            v.update(register_pairs(10 + width * i, values, case.bits))
        data = ", ".join(span(10 + width * i, width) for i in range(case.operands))
        state = run(f"ds_{name} {span(30, width)}, v1, {data}", lds=raw, v=v, arch=arch)
        assert state.lds.tobytes()[: len(after)] == after
        assert result(state, 30, case.bits) == old


@pytest.mark.parametrize("arch", ARCHS)
def test_conditional_exchange_looks_at_bit_31_of_each_half(arch: str) -> None:
    raw = struct.pack("<4I", 1, 2, 3, 4)
    state = run(
        "ds_condxchg32_rtn_b64 v[30:31], v1, v[2:3]",
        lds=raw,
        exec_=3,
        v={1: [0, 8], 2: [0x80000009, 0x00000009], 3: [0x7FFFFFFF, 0xFFFFFFFF]},
        arch=arch,
    )
    assert struct.unpack("<4I", state.lds.tobytes()[:16]) == (9, 2, 3, 0x7FFFFFFF)
    assert [int(state.v64(30)[i]) for i in (0, 1)] == [1 | 2 << 32, 3 | 4 << 32]


TINY = 0x00000003  # a float32 denormal


@pytest.mark.parametrize(("mode", "kept"), [(FloatMode(), True), (flushing(), False)])
def test_lds_float_add_obeys_the_denormal_mode_and_memory_does_not(mode: FloatMode, kept: bool) -> None:
    memory = filled(bytes(64))
    raw = struct.pack("<2I", TINY, 0)
    state = run(
        ["ds_add_f32 v1, v2", "global_atomic_add_f32 v1, v2, s[2:3]"],
        lds=raw,
        space=memory.space,
        mode=mode,
        v={1: 0, 2: TINY},
        exec_=1,
        s=memory.scalars(2),
    )
    assert struct.unpack("<I", state.lds.tobytes()[:4])[0] == (2 * TINY if kept else 0)
    assert struct.unpack("<I", memory.content[:4])[0] == TINY


@pytest.mark.parametrize("operation", ["add_f32", "min_f32", "max_f32"])
def test_nan_in_one_lane_of_many(operation: str) -> None:
    """A sum keeps the quieted NaN; min and max keep what a false comparison keeps, memory."""
    nan = 0x7F800123
    values = [struct.unpack("<I", struct.pack("<f", float(i)))[0] for i in range(64)]
    values[10] = nan
    state = run(f"ds_{operation} v1, v2", lds=struct.pack("<I", values[5]), v={1: 0, 2: values})
    got = struct.unpack("<I", state.lds.tobytes()[:4])[0]
    wanted = {"add_f32": nan | 0x400000, "min_f32": 0, "max_f32": values[63]}
    assert got == wanted[operation]


def test_misaligned_atomic_is_a_finding() -> None:
    memory = filled(bytes(1024))
    state = run(
        "global_atomic_add_x2 v1, v[2:3], s[2:3]",
        space=memory.space,
        v={1: [8 * lane + 4 for lane in range(64)]},
        s=memory.scalars(2),
    )
    assert [(f.check, f.argument, f.occurrences) for f in state.findings] == [("alignment", "t", 64)]


def test_clamped_atomics_are_dropped_and_return_zero() -> None:
    memory = filled(bytes(1024))
    state = run(
        "buffer_atomic_add v10, v1, s[4:7], 0 offen sc0",
        space=memory.space,
        v={1: [lane * 4 for lane in range(64)], 10: 5},
        s=memory.descriptor(4, 40),
    )
    assert memory.content[:44] == struct.pack("<11I", *[5] * 10, 0)
    assert not state.v[10].any()
    assert [f.check for f in state.findings] == ["clamp"]


SCALAR = [c for c in CASES if c.memory and c.kind == "int"]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize("prefix", ["s_atomic", "s_buffer_atomic"])
@pytest.mark.parametrize("case", SCALAR, ids=lambda c: c.memory)
def test_scalar_atomic(case: Case, prefix: str, returns: bool, arch: str) -> None:
    size, width = case.bits // 8, case.bits // 32
    for lane in (0, 3, 20):
        raw, _, operands, _, _ = arrange(case, 64, FULL)
        memory = filled(raw)
        place = 8 * size
        before = int.from_bytes(raw[place : place + size], "little")
        values = [x[lane] for x in operands]
        if case.operands == 2 and lane != 20:
            values[1] = before
        data = span(12, width * case.operands, "s")
        base, where = ("s[2:3]", memory.scalars(2)) if prefix == "s_atomic" else ("s[4:7]", memory.descriptor(4))
        dwords = b"".join(v.to_bytes(size, "little") for v in values)
        s = {12 + i: struct.unpack_from("<I", dwords, 4 * i)[0] for i in range(len(dwords) // 4)}
        line = f"{prefix}_{case.memory} {data}, {base}, 0x{place:x}{' glc' if returns else ''}"
        state = run(line, space=memory.space, s={**where, **s}, exec_=0, arch=arch)
        wanted = case.model(before, *values)
        assert int.from_bytes(memory.content[place : place + size], "little") == wanted
        got = state.s[12] if width == 1 else state.s64(12)
        assert got == (before if returns else values[0])
