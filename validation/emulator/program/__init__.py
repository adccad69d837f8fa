"""Front end: amdgcn assembly text to a list of instructions plus the kernels' descriptors."""

from .operands import Operand, parse_operand
from .program import Instruction, Kernel, KernelArg, Program, parse_program

__all__ = ["Instruction", "Kernel", "KernelArg", "Operand", "Program", "parse_operand", "parse_program"]
