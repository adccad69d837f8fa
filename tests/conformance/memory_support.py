"""What the memory tests share: a filled allocation, and what loads and stores mean, spelled out on bytes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import torch

from validation.emulator import AddressSpace

LANES = 64
#: Fill of destination registers, to see what stays.
OLD = 0xA1B2C3D4
#: Load suffix -> bytes, sign-extended, half of the register that is written ("" for all of it).
LOADS: dict[str, tuple[int, bool, str]] = {
    "ubyte": (1, False, ""),
    "sbyte": (1, True, ""),
    "ushort": (2, False, ""),
    "sshort": (2, True, ""),
    "dword": (4, False, ""),
    "dwordx2": (8, False, ""),
    "dwordx3": (12, False, ""),
    "dwordx4": (16, False, ""),
    "ubyte_d16": (1, False, "lo"),
    "ubyte_d16_hi": (1, False, "hi"),
    "sbyte_d16": (1, True, "lo"),
    "sbyte_d16_hi": (1, True, "hi"),
    "short_d16": (2, False, "lo"),
    "short_d16_hi": (2, False, "hi"),
}
#: Store suffix -> bytes, right shift of the register.
STORES: dict[str, tuple[int, int]] = {
    "byte": (1, 0),
    "short": (2, 0),
    "dword": (4, 0),
    "dwordx2": (8, 0),
    "dwordx3": (12, 0),
    "dwordx4": (16, 0),
    "byte_d16_hi": (1, 16),
    "short_d16_hi": (2, 16),
}


@dataclass
class Arena:
    """One allocation named ``t`` of a byte pattern without repetition at small distances."""

    space: AddressSpace
    tensor: torch.Tensor
    before: bytes

    @property
    def address(self) -> int:
        return int(self.tensor.data_ptr())

    @property
    def content(self) -> bytes:
        return self.tensor.numpy().tobytes()

    def scalars(self, first: int = 0) -> dict[int, int]:
        """The address in an SGPR pair."""
        return {first: self.address & 0xFFFFFFFF, first + 1: self.address >> 32}

    def descriptor(
        self, first: int, records: int | None = None, stride: int = 0, word3: int = 0x20000
    ) -> dict[int, int]:
        """A buffer descriptor in four SGPRs."""
        size = len(self.before) if records is None else records
        return {
            first: self.address & 0xFFFFFFFF,
            first + 1: (self.address >> 32) | (stride << 16),
            first + 2: size,
            first + 3: word3,
        }


@functools.cache
def pattern(size: int) -> bytes:
    return bytes((i * 167 + (i >> 8) * 13 + 5) & 0xFF for i in range(size))


def arena(size: int = 4096) -> Arena:
    space = AddressSpace()
    tensor = space.empty((size,), torch.uint8, "t", initialised=True)
    tensor.copy_(torch.frombuffer(bytearray(pattern(size)), dtype=torch.uint8))
    return Arena(space, tensor, pattern(size))


def loaded(raw: bytes, suffix: str, old: int = OLD) -> list[int]:
    """Register contents after a load of ``raw``; ``old`` is what each register held."""
    nbytes, signed, half = LOADS[suffix]
    if nbytes >= 4:
        return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, nbytes, 4)]
    value = int.from_bytes(raw[:nbytes], "little", signed=signed)
    if half == "lo":
        return [(old & 0xFFFF0000) | (value & 0xFFFF)]
    if half == "hi":
        return [(old & 0x0000FFFF) | ((value & 0xFFFF) << 16)]
    return [value & 0xFFFFFFFF]


def registers(suffix_bytes: int) -> int:
    return max(1, suffix_bytes // 4)


def span(first: int, count: int, kind: str = "v") -> str:
    return f"{kind}{first}" if count == 1 else f"{kind}[{first}:{first + count - 1}]"


def is_active(exec_: int, lane: int) -> bool:
    return bool((exec_ >> lane) & 1)


def split(addresses: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """64-bit addresses -> two registers."""
    a = np.array(addresses, np.uint64)
    return (a & np.uint64(0xFFFFFFFF)).astype(np.uint32), (a >> np.uint64(32)).astype(np.uint32)
