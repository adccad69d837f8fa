"""Kernel ABI: kernarg segment, initial registers (LLVM AMDGPUUsage, "Initial Kernel Execution State")."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from .errors import LaunchError, UnsupportedError
from .limits import WAVE, Dim3
from .machine.waves import FloatMode, Waves
from .program.descriptor import USER_SGPRS
from .program.operands import PRIVATE_APERTURE, SHARED_APERTURE
from .program.program import Kernel, KernelArg

#: Packet type in the header of a kernel dispatch packet.
DISPATCH_PACKET = 2


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


def _label(arg: KernelArg, position: int) -> str:
    return f"argument {position} ({arg.name})" if arg.name else f"argument {position}"


def pack_argument(value: Any, arg: KernelArg, position: int = 0) -> bytes:
    """Bytes of one explicit argument: a tensor or None (pointer), an int, a float, a NumPy scalar, or raw bytes.

    Raises TypeError for a value of the wrong kind or size and LaunchError for a number that does not fit; both name the
    argument, what was given and what is accepted. Metadata does not say whether an integer is signed: both ranges are
    accepted.
    """
    what = _label(arg, position)
    pointer = arg.kind in ("global_buffer", "dynamic_shared_pointer")
    if hasattr(value, "data_ptr"):
        if arg.size != 8:
            raise TypeError(f"{what} takes a value of {arg.size} bytes, not a tensor (whose address has 8)")
        value = _address(value, what)
    if value is None:
        if arg.size != 8:
            raise TypeError(f"{what} takes a value of {arg.size} bytes; None is a null pointer, which has 8")
        value = 0
    address = isinstance(value, bytes | bytearray | memoryview | int | np.integer) and not isinstance(value, bool)
    if pointer and not address:
        raise TypeError(f"{what} takes a tensor, None or an address, got {value!r} ({type(value).__name__})")
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
    elif isinstance(value, np.generic):
        raw = value.tobytes()
    elif isinstance(value, int):
        raw = _integer(int(value), arg.size, pointer, what)
    elif isinstance(value, float) and arg.size in (4, 8):
        raw = _float(value, arg.size, what)
    else:
        raise TypeError(
            f"{what}: cannot pass {type(value).__name__} as {arg.size} bytes; "
            "it takes a tensor, None, int, float (4 or 8 bytes), NumPy scalar or bytes"
        )
    if len(raw) != arg.size:
        raise TypeError(f"{what} takes {arg.size} bytes, got {len(raw)} ({type(value).__name__})")
    return raw


def _address(tensor: Any, what: str) -> int:
    """Where a tensor's first element lies, which must be in the memory of this process."""
    device, layout = getattr(tensor, "device", "cpu"), str(getattr(tensor, "layout", "torch.strided"))
    if str(device) != "cpu" or layout != "torch.strided":
        raise TypeError(f"{what} takes a strided tensor on the CPU, got one on {device} of layout {layout}")
    return int(tensor.data_ptr())


def _integer(value: int, size: int, pointer: bool, what: str) -> bytes:
    low, high = 0 if pointer else -(1 << (8 * size - 1)), (1 << (8 * size)) - 1
    if not low <= value <= high:
        raise LaunchError(f"{what} is {value}, and takes {size} bytes: {low} to {high}; pass a value in this range")
    return (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _float(value: float, size: int, what: str) -> bytes:
    try:
        return struct.pack("<f" if size == 4 else "<d", value)
    except OverflowError:
        raise LaunchError(f"{what} is {value!r}, beyond the largest float32; pass a value that fits, or inf") from None


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
    for position, (arg, value) in enumerate(zip(visible, values, strict=True)):
        raw[arg.offset : arg.offset + arg.size] = pack_argument(value, arg, position)
    hidden = hidden_values(grid, block, dynamic_lds)
    for arg in kernel.args:
        if arg.kind.startswith("hidden_"):
            if arg.kind not in hidden:
                raise UnsupportedError(f"{kernel.name}: hidden argument {arg.kind}; known are {', '.join(hidden)}")
            raw[arg.offset : arg.offset + arg.size] = hidden[arg.kind].to_bytes(arg.size, "little")
    return bytes(raw)


def pack_raw(kernel: Kernel, addresses: Sequence[int], grid: Dim3, block: Dim3, dynamic_lds: int) -> bytes:
    """As :func:`pack_kernarg`, from the host addresses of the argument values, as HIP's launch call passes them."""
    visible = visible_args(kernel)
    if len(addresses) != len(visible):
        raise LaunchError(f"{kernel.name} takes {len(visible)} arguments, the launch passes {len(addresses)}")
    values = [ctypes.string_at(address, arg.size) for arg, address in zip(visible, addresses, strict=True)]
    return pack_kernarg(kernel, values, grid, block, dynamic_lds)


def dispatch_packet(kernel: Kernel, grid: Dim3, block: Dim3, lds: int, kernarg: int) -> bytes:
    """The 64-byte AQL kernel dispatch packet that ``dispatch_ptr`` points to (HSA runtime specification 2.9.6)."""
    return struct.pack(
        "<HHHHHHIIIIIQQQQ", DISPATCH_PACKET, hidden_values(grid, block, 0)["hidden_grid_dims"], *block, 0,
        *(g * b for g, b in zip(grid, block, strict=True)), kernel.scratch_bytes, lds, 0, kernarg, 0, 0,
    )  # fmt: skip


def initial_registers(w: Waves, kernel: Kernel, block: Dim3, kernarg: bytes, kernarg_address: int, packet: int) -> None:
    """Set SGPRs and workitem-id VGPRs as the command processor leaves them at the kernel's entry."""
    d = kernel.descriptor
    values = {"user_sgpr_kernarg_segment_ptr": kernarg_address, "user_sgpr_dispatch_ptr": packet}
    values["user_sgpr_private_segment_size"] = kernel.scratch_bytes
    position = 0
    for name, width in USER_SGPRS:
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
    axes = d.get("system_vgpr_workitem_id", 0)
    w.V[0] = x
    if axes >= 1:
        w.V[0] |= y << np.uint32(10)
    if axes == 2:
        w.V[0] |= z << np.uint32(20)
