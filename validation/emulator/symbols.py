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


#: A symbol whose address code takes from the global offset table.
_VIA_TABLE = re.compile(r"([\w.$]+)@gotpcrel32@")
_SLOT = 8


class CodeImage:
    """Places a program's code and data in the address space. Code bytes do not exist: only addresses do.

    Symbols that code reaches by ``@gotpcrel32`` have a slot with their address in a table behind the data, as the
    loader would make one.
    """

    def __init__(self, program: Program, space: AddressSpace) -> None:
        self.program = program
        if "image" not in program.bound:
            names = (m[1] for inst in program.instructions for m in _VIA_TABLE.finditer(inst.text))
            slots = program.bound["slots"] = {name: i for i, name in enumerate(dict.fromkeys(names))}
            size = INSTRUCTION_BYTES * len(program.instructions) + len(program.data.content) + _SLOT * len(slots)
            program.bound["image"] = np.frombuffer(bytearray(size + 3 * 64), np.uint8).copy()
        self.content = program.bound["image"]
        self.slots: dict[str, int] = program.bound["slots"]
        self.base = int(self.content.ctypes.data)
        self.data_base = (self.base + INSTRUCTION_BYTES * len(program.instructions) + 63) & ~63
        # not side by side: an overrun of the data shall not read the table
        self.table_base = (self.data_base + len(program.data.content) + 2 * 64 - 1) & ~63
        self._fill_table(space)
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

    def _fill_table(self, space: AddressSpace) -> None:
        if not self.slots:
            return
        known = self.program.data.symbols.keys() | self.program.labels.keys()
        values = [self.address_of(name) if name in known else 0 for name in self.slots]
        raw = np.array(values, np.uint64).view(np.uint8)
        start = self.table_base - self.base
        self.content[start : start + len(raw)] = raw
        table = Allocation(
            self.table_base, len(raw), "global offset table", itemsize=_SLOT, writable=False, owner=self.content
        )
        space.add(table)

    def address_of(self, symbol: str) -> int:
        if symbol in self.program.lds_symbols:
            return self.program.lds_symbols[symbol]
        if symbol in self.program.data.symbols:
            return self.data_base + self.program.data.symbols[symbol]
        if symbol in self.program.labels:
            return self.base + INSTRUCTION_BYTES * self.program.labels[symbol]
        raise AsmError(f"symbol {symbol!r} is not defined in this text")

    def symbol_address(self, inst: Instruction, text: str) -> int:
        """32-bit value of an operand: ``sym@rel32@lo+4``, ``sym@gotpcrel32@hi+12``, ``sym@abs32@lo``, a bare symbol."""
        match = _REFERENCE.fullmatch(text)
        if match is None:
            raise UnsupportedError(f"symbol expression {text!r}", inst.line_number, inst.text)
        value = self.address_of(match["symbol"]) + int(match["addend"] or 0)
        if match["kind"] == "gotpcrel32":
            if match["symbol"] in self.program.lds_symbols:
                raise UnsupportedError(f"LDS symbol by a table of addresses: {text!r}", inst.line_number, inst.text)
            value = self.table_base + _SLOT * self.slots[match["symbol"]] + int(match["addend"] or 0)
        if match["kind"] in ("rel32", "gotpcrel32"):
            # relative to the literal, which follows the 4-byte instruction word
            value -= self.base + INSTRUCTION_BYTES * inst.index + 4
        value &= _MASK
        return value >> 32 if match["half"] == "hi" else value & 0xFFFFFFFF
