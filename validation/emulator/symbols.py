"""Addresses of code, constant data and LDS symbols of a program."""

from __future__ import annotations

import re

import numpy as np

from .errors import AsmError, UnsupportedError
from .memory.space import AddressSpace, Allocation
from .program.program import INSTRUCTION_BYTES, Instruction, Program

_REFERENCE = re.compile(
    r"(?P<symbol>[\w.$]+)(?:@(?P<kind>rel32|abs32|gotpcrel32)@(?P<half>lo|hi))?(?P<addend>[+-]\d+)?"
)
_MASK = (1 << 64) - 1


class CodeImage:
    """Places a program's code and data in the address space. Code bytes do not exist: only addresses do."""

    def __init__(self, program: Program, space: AddressSpace) -> None:
        self.program = program
        if "image" not in program.bound:
            size = INSTRUCTION_BYTES * len(program.instructions)
            program.bound["image"] = np.frombuffer(bytearray(size + 64 + len(program.data.content)), np.uint8).copy()
        self.content = program.bound["image"]
        self.base = int(self.content.ctypes.data)
        self.data_base = (self.base + INSTRUCTION_BYTES * len(program.instructions) + 63) & ~63
        if program.data.content:
            start = self.data_base - self.base
            raw = np.frombuffer(bytes(program.data.content), np.uint8)
            self.content[start : start + len(raw)] = raw[: len(self.content) - start]
            for offset, size, name in program.data.fixups:
                value = self.address_of(name) & ((1 << (8 * size)) - 1)
                self.content[start + offset : start + offset + size] = np.frombuffer(
                    value.to_bytes(size, "little"), np.uint8
                )
            space.add(Allocation(self.data_base, len(raw), "constant data", owner=self.content))

    def address_of(self, symbol: str) -> int:
        if symbol in self.program.lds_symbols:
            return self.program.lds_symbols[symbol]
        if symbol in self.program.data.symbols:
            return self.data_base + self.program.data.symbols[symbol]
        if symbol in self.program.labels:
            return self.base + INSTRUCTION_BYTES * self.program.labels[symbol]
        raise AsmError(f"symbol {symbol!r} is not defined in this text")

    def symbol_address(self, inst: Instruction, text: str) -> int:
        """32-bit value of a symbol operand: ``sym@rel32@lo+4``, ``sym@abs32@lo`` or a bare symbol."""
        match = _REFERENCE.fullmatch(text)
        if match is None or match["kind"] == "gotpcrel32":
            raise UnsupportedError(f"symbol expression {text!r}", inst.line_number, inst.text)
        value = self.address_of(match["symbol"]) + int(match["addend"] or 0)
        if match["kind"] == "rel32":
            # relative to the literal, which follows the 4-byte instruction word
            value -= self.base + INSTRUCTION_BYTES * inst.index + 4
        value &= _MASK
        return value >> 32 if match["half"] == "hi" else value & 0xFFFFFFFF
