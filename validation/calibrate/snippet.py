"""An instruction vector as data, and the kernel that carries it out on any device.

A *state image* is rows of 64 uint32: two rows of scalars (:data:`SCALARS`), the VGPRs, the AGPRs, the LDS. The kernel
loads one, runs the body with exactly that state, and stores one. What it needs for itself lies in VGPRs above those of
the body; ``v_writelane`` saves scalars whatever EXEC is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

LANES = 64
ROW_BYTES = 4 * LANES
SGPRS = 102
KERNEL = "calibrate"

#: Name and place in the two rows of scalars of everything that is not a numbered SGPR.
SPECIAL = {"vcc_lo": 102, "vcc_hi": 103, "exec_lo": 104, "exec_hi": 105, "m0": 106, "scc": 107}
SCALARS = 2
#: VGPRs of the kernel's own, above the body's: result pointer, two rows of scalars, state pointer, a value, lane * 4.
OWN = 8
#: Rows that an instruction's offset reaches (13 bits, signed) before the pointer must move on.
REACH = 16
MOST_VGPRS = 256 - OWN

#: Results of these are no function of the state that the image holds.
UNREPEATABLE = {
    "s_memtime": "reads a clock",
    "s_memrealtime": "reads a clock",
    "s_getpc_b64": "reads the address of the code",
    "s_swappc_b64": "reads the address of the code",
    "s_call_b64": "reads the address of the code",
    "s_setpc_b64": "jumps to an address of the code",
    "s_getreg_b32": "reads registers of the hardware that the image does not hold",
    "s_endpgm": "ends the wave before its state can be stored",
    "s_endpgm_saved": "ends the wave before its state can be stored",
    "s_barrier": "waits for other waves, of which there are none here",
}

Words = NDArray[np.uint32]


class NotComparableError(Exception):
    """This vector cannot be carried out in the same way on a GPU; the message says why."""


@dataclass(frozen=True)
class Region:
    """Memory that a body may touch: it lies at ``address`` on both sides."""

    name: str
    address: int
    before: bytes


@dataclass(frozen=True)
class Snippet:
    """State before ``body``: ``v``/``a`` uint32 [registers, 64], ``s`` uint32 [102], ``special`` by name, the LDS.

    ``mode``: fields of the MODE register, as ``.amdhsa_`` directives name them.
    """

    arch: str
    body: str
    v: Words
    a: Words
    s: Words
    special: Mapping[str, int]
    lds: bytes
    mode: Mapping[str, int]
    scratch_bytes: int = 0
    regions: tuple[Region, ...] = field(default=())

    def __post_init__(self) -> None:
        for mnemonic in self.mnemonics:
            if mnemonic in UNREPEATABLE:
                raise NotComparableError(f"{mnemonic} {UNREPEATABLE[mnemonic]}")
        if len(self.v) > MOST_VGPRS:
            raise NotComparableError(f"more than {MOST_VGPRS} VGPRs leave none for storing the state")
        if len(self.lds) % ROW_BYTES:
            raise NotComparableError(f"an LDS of {len(self.lds)} bytes is no multiple of {ROW_BYTES}")

    @property
    def mnemonics(self) -> tuple[str, ...]:
        """Of the instructions of the body, without encoding suffixes, in order."""
        words = (re.sub(r"^\s*[\w.$]+:\s*", "", line).split(";")[0].split() for line in self.body.splitlines())
        found = (line[0] for line in words if line and not line[0].startswith((".", "//")))
        return tuple(re.sub(r"_(e32|e64|sdwa|dpp)$", "", word) for word in found)

    @property
    def rows(self) -> int:
        """Of its state image."""
        return SCALARS + len(self.v) + len(self.a) + len(self.lds) // ROW_BYTES

    def image(self) -> Words:
        """The state before, uint32 [rows, 64]."""
        scalars = np.zeros(SCALARS * LANES, np.uint32)
        scalars[:SGPRS] = self.s
        for name, place in SPECIAL.items():
            scalars[place] = self.special[name]
        lds = np.frombuffer(self.lds, np.uint32).reshape(-1, LANES)
        return np.concatenate([scalars.reshape(SCALARS, LANES), self.v, self.a, lds])


def named(snippet: Snippet, image: Words) -> dict[str, Any]:
    """A state image by the names of what it holds: ``s``, the :data:`SPECIAL` ones, ``v``, ``a``, ``lds`` (uint32)."""
    scalars, vector = image[:SCALARS].reshape(-1), image[SCALARS:]
    v, a = len(snippet.v), len(snippet.a)
    parts: dict[str, Any] = {"s": scalars[:SGPRS], "v": vector[:v], "a": vector[v : v + a], "lds": vector[v + a :]}
    return parts | {name: scalars[place : place + 1] for name, place in SPECIAL.items()}


def kernel_text(snippet: Snippet) -> str:
    """The kernel :data:`KERNEL`, of one wave: arguments are the addresses of the state image and of the result."""
    own = -(-len(snippet.v) // 4) * 4
    lines = [*_prologue(snippet, own), "\ts_nop 7", snippet.body, *_epilogue(snippet, own)]
    return _frame(snippet, own + OWN, lines)


def _pointer(first: int) -> str:
    return f"v[{first}:{first + 1}]"


def _moved_on(first: int) -> list[str]:
    return [
        f"\tv_add_co_u32_e32 v{first}, vcc, 0x{REACH * ROW_BYTES:x}, v{first}",
        f"\tv_addc_co_u32_e32 v{first + 1}, vcc, 0, v{first + 1}, vcc",
    ]


def _each_row(snippet: Snippet, own: int, pointer: int, access: Any) -> list[str]:
    """What ``access(target, offset)`` gives for every row of an image, in order; the pointer moves on in between."""
    registers = [f"v{own + 2}", f"v{own + 3}"]
    registers += [f"v{r}" for r in range(len(snippet.v))] + [f"a{r}" for r in range(len(snippet.a))]
    targets: list[tuple[str, int]] = [(register, -1) for register in registers]
    targets += [(f"v{own + 6}", row * ROW_BYTES) for row in range(len(snippet.lds) // ROW_BYTES)]
    lines: list[str] = []
    for row, (register, lds) in enumerate(targets):
        if row and row % REACH == 0:
            lines += _moved_on(pointer)
        lines += access(register, f"{_pointer(pointer)}", row % REACH * ROW_BYTES, lds)
    return lines


def _prologue(snippet: Snippet, own: int) -> list[str]:
    state, lane = own + 4, own + 7

    def load(register: str, pointer: str, offset: int, lds: int) -> list[str]:
        got = [f"\tglobal_load_dword {register}, {pointer}, off offset:{offset}"]
        if lds >= 0:
            got += ["\ts_waitcnt vmcnt(0)", f"\tds_write_b32 v{lane}, {register} offset:{lds}"]
        return got

    lines = ["\ts_load_dwordx4 s[0:3], s[0:1], 0x0", f"\tv_lshlrev_b32_e32 v{lane}, 2, v0", "\ts_waitcnt lgkmcnt(0)"]
    for pointer, low in ((state, 0), (own, 2)):
        lines += [
            f"\tv_mov_b32_e32 v{pointer + 1}, s{low + 1}",
            f"\tv_add_co_u32_e32 v{pointer}, vcc, s{low}, v{lane}",
            f"\tv_addc_co_u32_e32 v{pointer + 1}, vcc, 0, v{pointer + 1}, vcc",
        ]
    lines += _each_row(snippet, own, state, load)
    lines += ["\ts_waitcnt vmcnt(0) lgkmcnt(0)", "\ts_nop 7"]

    def read(target: str, place: int) -> str:
        return f"\tv_readlane_b32 {target}, v{own + 2 + place // LANES}, {place % LANES}"

    lines += [read("s0", SPECIAL["scc"]), "\ts_nop 4", "\ts_cmp_lg_u32 s0, 0"]
    lines += [read("s0", SPECIAL["m0"]), "\ts_nop 4", "\ts_mov_b32 m0, s0"]
    lines += [read("vcc_lo", SPECIAL["vcc_lo"]), read("vcc_hi", SPECIAL["vcc_hi"])]
    lines += [read("s0", SPECIAL["exec_lo"]), read("s1", SPECIAL["exec_hi"]), "\ts_nop 4", "\ts_mov_b64 exec, s[0:1]"]
    return lines + [read(f"s{r}", r) for r in range(SGPRS)]


def _epilogue(snippet: Snippet, own: int) -> list[str]:
    lane = own + 7

    def write(source: str, place: int) -> str:
        return f"\tv_writelane_b32 v{own + 2 + place // LANES}, {source}, {place % LANES}"

    def store(register: str, pointer: str, offset: int, lds: int) -> list[str]:
        got = []
        if lds >= 0:
            got += [f"\tds_read_b32 {register}, v{lane} offset:{lds}", "\ts_waitcnt lgkmcnt(0)"]
        got.append(f"\tglobal_store_dword {pointer}, {register}, off offset:{offset}")
        return [*got, "\ts_waitcnt vmcnt(0)"] if lds >= 0 else got

    lines = ["\ts_nop 15", "\ts_nop 15", "\ts_waitcnt vmcnt(0) expcnt(0) lgkmcnt(0)", "\ts_set_gpr_idx_off"]
    lines += [write(f"s{r}", r) for r in range(SGPRS)]
    lines += [write(name, place) for name, place in SPECIAL.items() if name != "scc"]
    lines += ["\ts_cselect_b32 s0, 1, 0", write("s0", SPECIAL["scc"]), "\ts_mov_b64 exec, -1", "\ts_nop 4"]
    lines += _each_row(snippet, own, own, store)
    return [*lines, "\ts_waitcnt vmcnt(0)", "\ts_endpgm"]


def _frame(snippet: Snippet, accum: int, lines: list[str]) -> str:
    agprs = len(snippet.a)
    settings = {
        "group_segment_fixed_size": len(snippet.lds),
        "private_segment_fixed_size": snippet.scratch_bytes,
        "enable_private_segment": int(snippet.scratch_bytes > 0),
        "kernarg_size": 16,
        "user_sgpr_count": 2,
        "user_sgpr_kernarg_segment_ptr": 1,
        "next_free_vgpr": accum + agprs,
        "next_free_sgpr": SGPRS,
        "accum_offset": accum,
        **snippet.mode,
    }
    return "\n".join([
        f'\t.amdgcn_target "amdgcn-amd-amdhsa--{snippet.arch}"',
        "\t.amdhsa_code_object_version 5", "\t.text", f"\t.globl {KERNEL}", "\t.p2align 8",
        f"\t.type {KERNEL},@function", f"{KERNEL}:", *lines, f".L{KERNEL}_end:",
        f"\t.size {KERNEL}, .L{KERNEL}_end-{KERNEL}", '\t.section .rodata,"a",@progbits', "\t.p2align 6, 0x0",
        f"\t.amdhsa_kernel {KERNEL}", *(f"\t\t.amdhsa_{name} {value}" for name, value in settings.items()),
        "\t.end_amdhsa_kernel", "\t.amdgpu_metadata", "---", "amdhsa.kernels:", "  - .args:",
        "      - .address_space: global", "        .offset: 0", "        .size: 8",
        "        .value_kind: global_buffer",
        "      - .address_space: global", "        .offset: 8", "        .size: 8",
        "        .value_kind: global_buffer",
        f"    .agpr_count: {agprs}", f"    .group_segment_fixed_size: {len(snippet.lds)}",
        "    .kernarg_segment_align: 8", "    .kernarg_segment_size: 16", "    .max_flat_workgroup_size: 64",
        f"    .name: {KERNEL}", f"    .private_segment_fixed_size: {snippet.scratch_bytes}",
        f"    .sgpr_count: {SGPRS + 4}", f"    .symbol: {KERNEL}.kd", f"    .vgpr_count: {accum + agprs}",
        "    .wavefront_size: 64", f"amdhsa.target: amdgcn-amd-amdhsa--{snippet.arch}",
        "amdhsa.version:", "  - 1", "  - 2", "...", "\t.end_amdgpu_metadata", "",
    ])  # fmt: skip
