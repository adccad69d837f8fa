"""Kernel ABI: kernarg segment, initial registers (LLVM AMDGPUUsage, "Initial Kernel Execution State")."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import AsmError
from .machine.waves import FloatMode, Waves
from .program.operands import PRIVATE_APERTURE, SHARED_APERTURE
from .program.program import Kernel, KernelArg

Dim3 = tuple[int, int, int]
WAVE = 64


def float_mode(kernel: Kernel) -> FloatMode:
    d = kernel.descriptor
    return FloatMode(
        round_32=d.get("float_round_mode_32", 0),
        round_16_64=d.get("float_round_mode_16_64", 0),
        denorm_32=d.get("float_denorm_mode_32", 0),
        denorm_16_64=d.get("float_denorm_mode_16_64", 3),
        dx10_clamp=bool(d.get("dx10_clamp", 1)),
        ieee=bool(d.get("ieee_mode", 1)),
        fp16_overflow=bool(d.get("fp16_overflow", 0)),
    )


def pack_argument(value: Any, arg: KernelArg) -> bytes:
    """Bytes of one explicit argument: a tensor or None (pointer), an int, a float, a NumPy scalar, or raw bytes."""
    if hasattr(value, "data_ptr"):
        value = value.data_ptr()
    if value is None:
        value = 0
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
    elif isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, bool | int):
        raw = (int(value) & ((1 << (8 * arg.size)) - 1)).to_bytes(arg.size, "little")
    elif isinstance(value, float) and arg.size in (4, 8):
        raw = struct.pack("<f" if arg.size == 4 else "<d", value)
    else:
        raise TypeError(
            f"argument {arg.name or arg.offset}: cannot pass {type(value).__name__} as {arg.size} bytes; "
            "it takes a tensor, None, int, float (4 or 8 bytes), NumPy scalar or bytes"
        )
    if len(raw) != arg.size:
        raise TypeError(f"argument {arg.name or arg.offset} is {arg.size} bytes, got {len(raw)}")
    return raw


def hidden_values(grid: Dim3, block: Dim3, dynamic_lds: int) -> dict[str, int]:
    """Values of the ``hidden_*`` arguments (code object v5). ``grid`` in workgroups: no partial workgroups exist."""
    values = {"hidden_grid_dims": max([1] + [i + 1 for i in range(3) if grid[i] * block[i] > 1])}
    for axis, count, size in zip("xyz", grid, block, strict=True):
        values[f"hidden_block_count_{axis}"] = count
        values[f"hidden_group_size_{axis}"] = size
        values[f"hidden_remainder_{axis}"] = 0
        values[f"hidden_global_offset_{axis}"] = 0
    values["hidden_dynamic_lds_size"] = dynamic_lds
    values["hidden_private_base"] = PRIVATE_APERTURE >> 32
    values["hidden_shared_base"] = SHARED_APERTURE >> 32
    for name in ("none", "queue_ptr", "hostcall_buffer", "multigrid_sync_arg", "heap_v1", "default_queue",
                 "completion_action", "printf_buffer"):  # fmt: skip
        values[f"hidden_{name}"] = 0
    return values


def visible_args(kernel: Kernel) -> list[KernelArg]:
    return [a for a in kernel.args if not a.kind.startswith("hidden_")]


def pack_kernarg(kernel: Kernel, values: Sequence[Any], grid: Dim3, block: Dim3, dynamic_lds: int) -> bytes:
    """The kernarg segment from explicit argument values; hidden arguments are filled in."""
    visible = visible_args(kernel)
    if len(values) != len(visible):
        shown = ", ".join(f"{a.name or a.kind}({a.size} bytes)" for a in visible)
        raise TypeError(f"{kernel.name} takes {len(visible)} arguments, got {len(values)}; it takes: {shown}")
    raw = bytearray(kernel.kernarg_bytes)
    for arg, value in zip(visible, values, strict=True):
        raw[arg.offset : arg.offset + arg.size] = pack_argument(value, arg)
    hidden = hidden_values(grid, block, dynamic_lds)
    for arg in kernel.args:
        if arg.kind.startswith("hidden_"):
            if arg.kind not in hidden:
                raise AsmError(f"{kernel.name}: unknown hidden argument {arg.kind}")
            raw[arg.offset : arg.offset + arg.size] = hidden[arg.kind].to_bytes(arg.size, "little")
    return bytes(raw)


def dispatch_packet(kernel: Kernel, grid: Dim3, block: Dim3, lds: int, kernarg: int) -> bytes:
    """The 64-byte AQL kernel dispatch packet that ``dispatch_ptr`` points to (HSA runtime specification 2.9.6)."""
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", 0, sum(g * b > 1 for g, b in zip(grid, block, strict=True)), *block, 0,
        *(g * b for g, b in zip(grid, block, strict=True)), kernel.scratch_bytes, lds, 0, kernarg, 0, 0,
    )  # fmt: skip


#: User SGPR fields in the order in which they are assigned: descriptor field, SGPRs.
_USER_SGPRS = (
    ("user_sgpr_private_segment_buffer", 4),
    ("user_sgpr_dispatch_ptr", 2),
    ("user_sgpr_queue_ptr", 2),
    ("user_sgpr_kernarg_segment_ptr", 2),
    ("user_sgpr_dispatch_id", 2),
    ("user_sgpr_flat_scratch_init", 2),
    ("user_sgpr_private_segment_size", 1),
)


def initial_registers(w: Waves, kernel: Kernel, block: Dim3, kernarg: bytes, kernarg_address: int, packet: int) -> None:
    """Set SGPRs and workitem-id VGPRs as the command processor leaves them at the kernel's entry."""
    d = kernel.descriptor
    values = {"user_sgpr_kernarg_segment_ptr": kernarg_address, "user_sgpr_dispatch_ptr": packet}
    values["user_sgpr_private_segment_size"] = kernel.scratch_bytes
    position = 0
    for name, width in _USER_SGPRS:
        if d.get(name, 0):
            value = values.get(name, 0)
            for i in range(width):
                w.S[position + i] = (value >> (32 * i)) & 0xFFFFFFFF
            position += width
    words = np.frombuffer(kernarg + bytes(-len(kernarg) % 4), np.uint32)
    start = d.get("user_sgpr_kernarg_preload_offset", 0)
    for word in words[start : start + d.get("user_sgpr_kernarg_preload_length", 0)]:
        w.S[position] = word
        position += 1
    position = max(position, d.get("user_sgpr_count", position))
    for axis, name in enumerate("xyz"):
        if d.get(f"system_sgpr_workgroup_id_{name}", int(name == "x")):
            w.S[position] = w.ident.workgroup[:, axis].astype(np.uint32)
            position += 1
    flat = (w.ident.wave[:, None] * WAVE + np.arange(WAVE)).astype(np.uint32)
    x, y, z = flat % block[0], flat // block[0] % block[1], flat // (block[0] * block[1])
    w.V[0] = x | (y << np.uint32(10)) | (z << np.uint32(20))
