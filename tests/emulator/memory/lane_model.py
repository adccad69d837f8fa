"""Loads and stores of random address patterns: a kernel's text, and what it does, lane by lane and byte by byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

LANES, WAVES, GROUPS = 64, 3, 2
BLOCK = LANES * WAVES
TOTAL = BLOCK * GROUPS
LDS_BYTES = 4096
TURNS = 3
#: Rows of the table that a round reads: address (low, high), four words to store.
ROWS = 6
LANE = np.arange(LANES, dtype=np.int64)
SUFFIX = {1: "byte", 2: "short", 4: "dword", 8: "dwordx2", 12: "dwordx3", 16: "dwordx4"}
DS_SUFFIX = {1: "8", 2: "16", 4: "32", 8: "64", 12: "96", 16: "128"}
SPAN = 1 << 32


@dataclass
class Round:
    """One instruction that is run ``TURNS`` times; ``delta`` is added to the lanes of ``moved`` after each.

    door: pair, base, buffer, lds. offsets: int64 [waves of all groups, 64] from the window, or the LDS address.
    """

    door: str
    store: bool
    nbytes: int
    offsets: np.ndarray
    immediate: int
    delta: int
    active: int
    moved: int
    records: int = 0
    soffset: int = 0
    data: np.ndarray = field(default_factory=lambda: np.zeros((4, TOTAL), np.uint32))


def patterns(rng: np.random.Generator, window: int) -> np.ndarray:
    """int64 [waves, 64] that have strides, nearly have some, or have none; most of them inside of the window."""
    unit = int(rng.choice([1, 2, 4, 8, 12, 16]))
    step = unit * int(rng.choice([-16, -3, -1, 0, 1, 1, 1, 2, 5, 16]))
    kind = rng.integers(7)
    if kind == 0:
        lanes = LANE * step
    elif kind == 1:
        inner = int(rng.choice([2, 4, 8, 16, 32]))
        lanes = LANE % inner * unit + LANE // inner * step
    elif kind == 2:
        lanes = ((LANE % 8) ^ (LANE // 8)) * unit + LANE // 8 * step
    elif kind == 3:
        lanes = rng.integers(0, 64, LANES) * unit
    else:
        lanes = LANE * step
        if kind == 4:  # alike at both ends only
            lanes[int(rng.integers(1, 63))] += unit
    count = WAVES * GROUPS
    starts = {
        0: np.arange(count) * int(rng.choice([0, 64, 256, 1024])),
        1: rng.integers(0, 512, count) * unit,
        2: np.arange(count)[::-1] * 128,
    }[int(rng.integers(3))]
    made = window // 2 + starts[:, None] + np.broadcast_to(lanes, (count, LANES)).copy()
    if kind == 5:  # one lane of one wave is elsewhere
        made[int(rng.integers(count)), int(rng.integers(LANES))] += 4 * unit
    if kind == 6:  # a stride of its own in each wave
        made += np.arange(count)[:, None] * LANE * unit
    return made


def mask(rng: np.random.Generator) -> int:
    every = (1 << LANES) - 1
    choices = [every, every, every, int(rng.integers(0, 1 << 63)), 1 << int(rng.integers(64)), every >> 1, 0]
    return int(choices[int(rng.integers(len(choices)))])


def rounds(rng: np.random.Generator, count: int, window: int) -> Iterator[Round]:
    for _ in range(count):
        door = str(rng.choice(["pair", "base", "buffer", "lds"]))
        nbytes = int(rng.choice(list(SUFFIX)))
        size = LDS_BYTES if door == "lds" else window
        offsets = patterns(rng, size)
        edge = rng.integers(8)
        if edge == 0:  # some lanes outside, on one side or the other
            offsets += int(rng.choice([-1, 1])) * size // 2
        if door == "lds":
            offsets = offsets % (SPAN if edge == 0 else size)
            if edge:
                offsets = np.minimum(offsets, size - 64) & -min(nbytes, 4)
        immediate = (
            int(rng.choice([0, 0, 4, 16])) if door in ("lds", "buffer") else int(rng.choice([0, -16, 4, 1, 4000]))
        )
        store, records = bool(rng.integers(2)), int(rng.choice([1 << 20, window // 2 + 300, window // 2]))
        if store and (np.diff(np.sort(offsets, axis=None)) < nbytes).any():
            records = 1 << 20  # lanes that overlap and are cut in the middle: nothing says which dwords come first
        yield Round(
            door, store, nbytes, offsets, immediate,
            int(rng.choice([0, 0, 4, 16, -4])), mask(rng), mask(rng), records, int(rng.choice([0, 0, 8])),
            rng.integers(0, SPAN, (4, TOTAL), dtype=np.uint64).astype(np.uint32),
        )  # fmt: skip


def instruction(r: Round) -> str:
    words = max(1, r.nbytes // 4)
    values = f"v[8:{7 + words}]" if r.store else f"v[4:{3 + words}]"
    values = values if words > 1 else ("v8" if r.store else "v4")
    narrow = "u" if r.nbytes < 4 and not r.store else ""
    offset = f" offset:{r.immediate}" if r.immediate else ""
    if r.door == "lds":
        name = f"ds_{'write_b' if r.store else 'read_' + (narrow or 'b')}{DS_SUFFIX[r.nbytes]}"
        return f"{name} v2, {values}{offset}" if r.store else f"{name} {values}, v2{offset}"
    verb = "store" if r.store else "load"
    if r.door == "buffer":
        return f"buffer_{verb}_{narrow}{SUFFIX[r.nbytes]} {values}, v2, s[12:15], s19 offen{offset}"
    where = ("v[2:3]", "off") if r.door == "pair" else ("v2", "s[16:17]")
    operands = f"{where[0]}, {values}, {where[1]}" if r.store else f"{values}, {where[0]}, {where[1]}"
    return f"global_{verb}_{narrow}{SUFFIX[r.nbytes]} {operands}{offset}"


def _exec(bits: int) -> list[str]:
    return [f"s_mov_b32 exec_lo, 0x{bits & 0xFFFFFFFF:x}", f"s_mov_b32 exec_hi, 0x{bits >> 32:x}"]


def _s64(register: int, value: int) -> list[str]:
    return [f"s_mov_b32 s{register}, 0x{value & 0xFFFFFFFF:x}", f"s_mov_b32 s{register + 1}, 0x{value >> 32:x}"]


def body(programme: list[Round], window: int) -> list[str]:
    """``window``: address of the first byte of the window. Table in s[6:7], output in s[8:9], 4 * lane in v1."""
    lines = ["s_mov_b64 s[10:11], s[6:7]", *_s64(12, window | 0), "s_mov_b32 s15, 0x20000", *_s64(16, window)]
    for i, r in enumerate(programme):
        lines += [f"v_mov_b32_e32 v{4 + k}, 0" for k in range(4)]
        for k, register in enumerate((2, 3, 8, 9, 10, 11)):
            lines.append(f"global_load_dword v{register}, v1, s[10:11]")
            lines += [f"s_add_u32 s10, s10, {4 * TOTAL}", "s_addc_u32 s11, s11, 0"][: 2 if k < ROWS else 0]
        lines += ["s_waitcnt vmcnt(0)", f"s_mov_b32 s14, 0x{r.records:x}", f"s_mov_b32 s19, {r.soffset}"]
        lines += [*_exec(r.active), "s_mov_b32 s20, 0", f".Lturn{i}:", instruction(r), "s_waitcnt vmcnt(0) lgkmcnt(0)"]
        if r.delta:
            lines += [*_exec(r.moved), f"v_add_u32_e32 v2, {r.delta}, v2", *_exec(r.active)]
        lines += ["s_add_u32 s20, s20, 1", f"s_cmp_lt_u32 s20, {TURNS}", f"s_cbranch_scc1 .Lturn{i}"]
        lines += _exec((1 << LANES) - 1)
        for k in range(4):
            lines.append(f"global_store_dword v1, v{4 + k}, s[8:9]")
            lines += [f"s_add_u32 s8, s8, {4 * TOTAL}", "s_addc_u32 s9, s9, 0"]
    return lines


def table(programme: list[Round], window: int) -> np.ndarray:
    """uint32 [rounds, ROWS, TOTAL]."""
    made = np.zeros((len(programme), ROWS, TOTAL), np.uint32)
    for row, r in zip(made, programme, strict=True):
        where = r.offsets.reshape(-1) + (window if r.door == "pair" else 0)
        row[0], row[1] = where & (SPAN - 1), where >> 32
        row[2:] = r.data
    return made


class Model:
    """memory: bytes of the allocation around the window, ``start`` its place in it; written: which of them were."""

    def __init__(self, memory: np.ndarray, written: np.ndarray, start: int) -> None:
        self.memory, self.written, self.start = memory, written, start
        self.lds = [(np.zeros(LDS_BYTES, np.uint8), np.zeros(LDS_BYTES, bool)) for _ in range(GROUPS)]
        #: (round, check) of what a checker must report
        self.found: set[tuple[int, str]] = set()
        self.out: list[np.ndarray] = []

    def run(self, programme: list[Round], window: int) -> None:
        for i, r in enumerate(programme):
            address = r.offsets.reshape(-1) + (window if r.door == "pair" else 0)
            low, high = address % SPAN, (address >> 32) % SPAN
            out = np.zeros((4, TOTAL), np.uint32)
            for _ in range(TURNS):
                for t in range(TOTAL):
                    if r.active >> (t % LANES) & 1:
                        self._lane(i, r, t, int(low[t]), int(high[t]), window, out)
                moved = np.array([r.moved >> (t % LANES) & 1 for t in range(TOTAL)], bool)
                low = np.where(moved, (low + r.delta) % SPAN, low)
            self.out.append(out)

    def _lane(self, i: int, r: Round, t: int, low: int, high: int, window: int, out: np.ndarray) -> None:
        memory, written, limit = self.memory, self.written, len(self.memory)
        parts = [(0, r.nbytes)]
        if r.door == "lds":
            (memory, written), limit = self.lds[t // BLOCK], LDS_BYTES
            place = (low + r.immediate) % SPAN
            if place % min(r.nbytes, 4) and place + r.nbytes <= limit:
                self.found.add((i, "alignment"))
        elif r.door == "pair":
            place = (low | high << 32) + r.immediate - window + self.start
        else:
            place = low + r.immediate + self.start + (r.soffset if r.door == "buffer" else 0)
        if r.door == "buffer":
            step = min(r.nbytes, 4)
            inside = [k for k in range(0, r.nbytes, step) if low + r.immediate + k + step <= r.records]
            if len(inside) * step < r.nbytes:
                self.found.add((i, "clamp"))
                parts = [(k, step) for k in inside]
        raw = np.zeros(16, np.uint8)
        value = np.ascontiguousarray(r.data[:, t]).view(np.uint8)
        for first, count in parts:
            at = place + first
            if at < 0 or at + count > limit:
                self.found.add((i, "memcheck"))
                continue
            if r.store:
                memory[at : at + count] = value[first : first + count]
                written[at : at + count] = True
                continue
            if not written[at : at + count].all():
                self.found.add((i, "initcheck"))
            raw[first : first + count] = memory[at : at + count]
        if not r.store:
            out[: max(1, r.nbytes // 4), t] = raw.view(np.uint32)[: max(1, r.nbytes // 4)]
