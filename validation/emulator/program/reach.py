"""Registers that a kernel's code names against those that its descriptor allocates.

The walk follows the branches from the entry; code that is reached only through a computed jump is looked at when it is
bound (``dispatch.LazySteps``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import AsmError
from .operands import SGPRS
from .program import Instruction, Kernel, Program

#: After these nothing follows in the text: ends, and jumps to where a register points.
_STOPS = ("s_endpgm", "s_endpgm_saved", "s_branch", "s_setpc_b64", "s_rfe_b64")


@dataclass(frozen=True, slots=True)
class Registers:
    """How many registers of each kind a kernel has."""

    vgprs: int
    agprs: int
    sgprs: int

    def check(self, inst: Instruction, kernel: str) -> None:
        """Raise AsmError when ``inst`` names a register that the kernel does not have."""
        for operand in inst.operands:
            if operand.kind not in _KINDS:
                continue
            field, last = _KINDS[operand.kind], operand.index + operand.count - 1
            if operand.kind == "s" and last >= SGPRS:
                continue  # VCC, EXEC, M0, TTMP: their names are checked when parsed
            count = getattr(self, f"{field}s")
            if last >= count:
                raise AsmError(
                    f"{operand} is beyond the {count} {field.upper()}s of kernel {kernel!r} "
                    f"({_SOURCES[operand.kind]}); raise the descriptor's count or use a lower register",
                    inst.line_number,
                    inst.text,
                )


_KINDS = {"v": "vgpr", "a": "agpr", "s": "sgpr"}
_SOURCES = {
    "v": "the lower of .amdhsa_next_free_vgpr and .amdhsa_accum_offset",
    "a": ".amdhsa_next_free_vgpr less .amdhsa_accum_offset",
    "s": ".amdhsa_next_free_sgpr",
}


def registers_of(kernel: Kernel) -> Registers:
    """What the descriptor allocates; without one, what the metadata counts; without those, the whole files.

    ``accum_offset`` is where AGPRs start in the unified file of gfx90a and later.
    """
    fields = kernel.descriptor
    sgprs = min(fields.get("next_free_sgpr", SGPRS), SGPRS)
    if "next_free_vgpr" not in fields:
        agprs = int(kernel.metadata.get(".agpr_count", 0))
        total = int(kernel.metadata.get(".vgpr_count", 256))
        return Registers(max(1, min(256, total)), agprs, sgprs)
    total, offset = fields["next_free_vgpr"], fields.get("accum_offset", 0)
    if not offset:
        return Registers(max(total, 1), 0, sgprs)
    return Registers(max(1, min(total, offset)), max(0, total - offset), sgprs)


def check_registers(program: Program, kernel: Kernel) -> None:
    """Raise AsmError, with the line, for a register in the kernel's code that it does not allocate."""
    done = program.bound.setdefault("registers", set())
    if kernel.name in done:
        return
    registers = registers_of(kernel)
    for inst in reachable(program, kernel.entry):
        registers.check(inst, kernel.name)
    done.add(kernel.name)


def reachable(program: Program, entry: int) -> Iterator[Instruction]:
    """Instructions that direct branches and calls lead to from ``entry``, each once."""
    seen: set[int] = set()
    todo = [entry]
    while todo:
        at = todo.pop()
        while at < len(program.instructions) and at not in seen:
            seen.add(at)
            inst = program.instructions[at]
            yield inst
            target = inst.operands[-1] if inst.operands else None
            if target is not None and target.kind == "label" and target.name in program.labels:
                todo.append(program.labels[target.name])
            if inst.mnemonic in _STOPS:
                break
            at += 1
