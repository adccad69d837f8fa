"""Runs a few instructions with chosen register contents and reads registers back.

One wave of 64 lanes. Inputs are set directly in the wave state, so nothing but the instruction under test is trusted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from validation.emulator.checks.effects import SCC_KEY, effect_of, key_name
from validation.emulator.errors import KernelFault
from validation.emulator.isa import TABLE
from validation.emulator.launch import Launch
from validation.emulator.machine.transfer import scalar_key
from validation.emulator.machine.waves import FloatMode, Waves
from validation.emulator.memory.space import AddressSpace
from validation.emulator.program import parse_program

from . import coverage

LANES = 64
ARCHS = ("gfx942", "gfx950")
FULL = (1 << 64) - 1

#: Who carries out every call of :func:`run`, given it, the body and its options: calibration puts itself here.
AROUND: list[Callable[..., Any]] = []

_TEMPLATE = """
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
snippet:
{body}
	s_endpgm
	.section .rodata
	.amdhsa_kernel snippet
		.amdhsa_group_segment_fixed_size {lds}
		.amdhsa_private_segment_fixed_size {scratch}
		.amdhsa_next_free_vgpr {vgprs}
		.amdhsa_next_free_sgpr 102
		.amdhsa_float_denorm_mode_32 3
		.amdhsa_accum_offset {accum_offset}
	.end_amdhsa_kernel
	.amdgpu_metadata
amdhsa.kernels:
  - .name: snippet
    .agpr_count: {agprs}
    .vgpr_count: {vgprs}
	.end_amdgpu_metadata
"""


@dataclass
class State:
    """Registers after the snippet: ``v[r]``, ``a[r]`` uint32 [64]; ``s[r]``, ``exec_``, ``vcc`` int; ``scc`` bool."""

    v: np.ndarray
    a: np.ndarray
    s: list[int]
    scc: bool
    exec_: int
    vcc: int
    lds: np.ndarray
    findings: tuple[Any, ...] = field(default=())

    def v64(self, r: int) -> np.ndarray:
        """uint64 [64] of the pair at ``r``."""
        return self.v[r].astype(np.uint64) | (self.v[r + 1].astype(np.uint64) << np.uint64(32))

    def s64(self, r: int) -> int:
        return self.s[r] | (self.s[r + 1] << 32)


def lanes(values: Any, dtype: Any = np.uint32) -> np.ndarray:
    """A register's 64 lanes: a scalar is repeated, a shorter sequence is cycled. Negative ints are wrapped."""
    if type(values) is int and np.dtype(dtype).kind == "u":
        return np.full(LANES, values & ((1 << (8 * np.dtype(dtype).itemsize)) - 1), dtype)
    flat = np.atleast_1d(np.asarray(values, object if np.asarray(values).dtype == object else None))
    if flat.dtype.kind in "iuO" and np.dtype(dtype).kind == "u":
        bits = (1 << (8 * np.dtype(dtype).itemsize)) - 1
        flat = np.array([int(x) & bits for x in flat], dtype)
    return np.resize(flat.astype(dtype), LANES)


def f32(values: Any) -> np.ndarray:
    """Bits of float32 values for the 64 lanes."""
    return np.resize(np.atleast_1d(np.asarray(values, np.float32)), LANES).view(np.uint32)


def f16(values: Any) -> np.ndarray:
    """Bits of float16 values, in the low half of each lane."""
    return np.resize(np.atleast_1d(np.asarray(values, np.float16)), LANES).view(np.uint16).astype(np.uint32)


def pair(values: Any, dtype: Any = np.uint64) -> tuple[np.ndarray, np.ndarray]:
    """Low and high register of 64-bit values (int or float64)."""
    bits = lanes(values, dtype).view(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)


def _observable(function: Callable[..., State]) -> Callable[..., State]:
    @functools.wraps(function)
    def call(body: str | Sequence[str], **options: Any) -> State:
        return AROUND[-1](function, body, options) if AROUND else function(body, **options)

    return call


@_observable
def run(
    body: str | Sequence[str],
    *,
    arch: str = "gfx942",
    v: Mapping[int, Any] | None = None,
    a: Mapping[int, Any] | None = None,
    s: Mapping[int, int] | None = None,
    exec_: int = FULL,
    vcc: int = 0,
    scc: bool = False,
    m0: int = 0,
    mode: FloatMode | None = None,
    lds: Any = None,
    lds_bytes: int = 4096,
    scratch_bytes: int = 0,
    space: AddressSpace | None = None,
    vgprs: int = 64,
    agprs: int = 32,
    checks: Sequence[str] = ("memcheck",),
    workgroup: tuple[int, int, int] = (0, 0, 0),
) -> State:
    """Execute ``body`` (assembly lines) on one wave.

    v/a: register -> lane values (uint32; scalars and short sequences are repeated). s: register -> 32-bit value.
    lds: initial bytes. space: allocations that global accesses may touch. mode: float mode (default: IEEE, with
    all denormals).
    """
    text = body if isinstance(body, str) else "\n".join(body)
    program = parse_program(
        _TEMPLATE.format(
            arch=arch,
            body=text,
            lds=lds_bytes,
            scratch=scratch_bytes,
            vgprs=vgprs + agprs,
            accum_offset=vgprs,
            agprs=agprs,
        )
    )
    kernel = program.kernel()
    launch = Launch(program, kernel, (1, 1, 1), (LANES, 1, 1), b"", 0, space or AddressSpace(), checks)
    try:
        chunk = launch.chunk([workgroup])
        w = chunk.w
        _fill(w, v or {}, 0)
        _fill(w, a or {}, w.agpr_base)
        w.S[:] = 0
        for r, value in {**(s or {}), 106: vcc & 0xFFFFFFFF, 107: vcc >> 32, 124: m0}.items():
            w.S[r] = value & 0xFFFFFFFF
        w.scc[:] = scc
        w.S[126], w.S[127] = exec_ & 0xFFFFFFFF, exec_ >> 32
        w.sync_exec()
        if mode is not None:
            w.mode = mode
            chunk.mode = mode
            chunk.modes[0] = mode
            chunk.steps = launch.steps_for(mode)
        content = next(m for k, m in w.port.spaces.items() if k.value == "lds").content
        if lds is not None:
            raw = np.frombuffer(
                bytes(lds) if isinstance(lds, bytes | bytearray) else np.ascontiguousarray(lds).tobytes(), np.uint8
            )
            content[: len(raw)] = raw
        before = _registers(w)
        with np.errstate(all="ignore"):
            chunk.run()
        _record(launch)
        _check_effects(launch, before, _registers(w), w.agpr_base)
    except KernelFault:  # what s_trap is there for
        _record(launch)
        raise
    finally:
        launch.close()
    return State(
        w.V[: w.agpr_base, 0].copy(), w.V[w.agpr_base :, 0].copy(), [int(x) for x in w.S[:, 0]], bool(w.scc[0]),
        int(w.S[126, 0]) | int(w.S[127, 0]) << 32, int(w.S[106, 0]) | int(w.S[107, 0]) << 32,
        content[:lds_bytes].copy(),
        launch.log.all(),
    )  # fmt: skip


def _record(launch: Launch) -> None:
    program = launch.program
    executed = (i.mnemonic for i, hit in zip(program.instructions, launch.hits, strict=True) if hit)
    coverage.record(program.arch, executed)


class _Contents(NamedTuple):
    """Every register's contents at one time."""

    vectors: np.ndarray
    scalars: np.ndarray
    scc: np.ndarray


def _registers(w: Waves) -> _Contents:
    return _Contents(np.array(w.V), np.array(w.S[:128]), np.array(w.scc))


def _changed(before: _Contents, after: _Contents) -> Iterator[int]:
    """Keys of the registers that differ (see ``checks/effects.py``)."""
    yield from np.flatnonzero((before.vectors != after.vectors).any(axis=(1, 2))).tolist()
    yield from (scalar_key(r) for r in np.flatnonzero((before.scalars != after.scalars).any(axis=1)).tolist())
    if (before.scc != after.scc).any():
        yield SCC_KEY


def _check_effects(launch: Launch, before: _Contents, after: _Contents, agpr_base: int) -> None:
    """Nothing may change that the checkers believe to stay: their idea of what an instruction writes is tested by every
    vector of every instruction."""
    program = launch.program
    allowed: set[int] = set()
    for inst, hit in zip(program.instructions, launch.hits, strict=True):
        if hit:
            allowed.update(effect_of(inst, TABLE[program.arch, inst.mnemonic], agpr_base).writes)
    changed = [key_name(key, agpr_base) for key in _changed(before, after) if key not in allowed]
    assert not changed, f"{', '.join(changed)} changed, which no instruction is known to write"


def _fill(w: Waves, registers: Mapping[int, Any], base: int) -> None:
    for r, values in registers.items():
        w.V[base + r, 0] = lanes(values)


def flushing(**changes: Any) -> FloatMode:
    """The float mode with all denormals flushed, changed as asked."""
    return replace(FloatMode(denorm_32=0, denorm_16_64=0), **changes)
