"""Assembly text to a :class:`Program`: instructions, labels, kernel descriptors, metadata, constant data."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from ..errors import AsmError, UnsupportedError
from .data import DATA_DIRECTIVES, DataSection
from .descriptor import check_name, check_value, check_whole
from .expressions import ExpressionError, evaluate
from .gpr_index import index_moves
from .lexer import lex, strip_comment
from .operands import Operand, parse_operand, register_problem

#: Every instruction occupies this many bytes of the code segment, so that pc-relative symbol arithmetic works.
INSTRUCTION_BYTES = 8
_SUFFIX = re.compile(r"_(e32|e64_dpp|e64|dpp8|dpp|sdwa)$")
_LABEL = re.compile(r'("?[\w.$@]+"?)\s*:')
SUPPORTED_ARCHS = ("gfx942", "gfx950")
#: Directives that say nothing to the emulator: linkage, line and unwind information, padding of code.
_PASSED_OVER = frozenset(
    [
        ".globl", ".global", ".weak", ".hidden", ".protected", ".internal", ".local", ".type", ".size", ".ident",
        ".addrsig", ".addrsig_sym", ".p2alignl", ".balign", ".align", ".amdhsa_code_object_version",
        ".amd_amdgpu_isa", ".amdgpu_info", ".end_amdgpu_info",
    ]
)  # fmt: skip
_PADDING = (".fill", ".p2align")
#: In a file name of the line table: what follows is the helper that emitted the code, as ``file:line``.
VIA = " via "
TEXT, DATA, ELSEWHERE = "text", "data", "elsewhere"

#: Stack of a lane whose depth the compiler does not know: HIP's default ``hipLimitStackSize``.
DYNAMIC_STACK_BYTES = 1024


@dataclass(slots=True)
class Instruction:
    """One instruction. ``mnemonic`` has no encoding suffix; the suffix, if written, stands in ``encoding``."""

    mnemonic: str
    encoding: str
    operands: tuple[Operand, ...]
    modifiers: dict[str, Any]
    text: str
    line_number: int
    source: tuple[str, int] | None
    index: int = 0
    wait_text: str = ""
    via: str | None = None

    @property
    def place(self) -> str:
        """Where it comes from, for messages: source line and helper, or the assembly line."""
        if self.source is None:
            return f"asm line {self.line_number}"
        return f"{self.source[0]}:{self.source[1]}" + (f" (in {self.via})" if self.via else "")

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class KernelArg:
    """One kernel argument of the code object metadata; ``offset`` and ``size`` in bytes of the kernarg segment."""

    offset: int
    size: int
    kind: str
    name: str = ""
    address_space: str = ""


@dataclass(slots=True)
class Kernel:
    """A kernel: entry point, ``.amdhsa_*`` descriptor fields and metadata."""

    name: str
    entry: int
    descriptor: dict[str, int]
    metadata: dict[str, Any]
    args: tuple[KernelArg, ...] = ()

    @property
    def lds_bytes(self) -> int:
        return int(self.descriptor.get("group_segment_fixed_size", self.metadata.get(".group_segment_fixed_size", 0)))

    @property
    def scratch_bytes(self) -> int:
        """Private segment, bytes a lane; with a dynamic stack (recursion) at least what HIP gives by default."""
        fixed = self.descriptor.get("private_segment_fixed_size", self.metadata.get(".private_segment_fixed_size", 0))
        return max(int(fixed), DYNAMIC_STACK_BYTES if self.descriptor.get("uses_dynamic_stack") else 0)

    @property
    def kernarg_bytes(self) -> int:
        declared = int(self.metadata.get(".kernarg_segment_size", self.descriptor.get("kernarg_size", 0)))
        return max([declared, *(a.offset + a.size for a in self.args)])

    @property
    def kernarg_align(self) -> int:
        """What the kernarg segment is a multiple of, dwords at least: LLVM loads four dwords for three where they are
        aligned to eight bytes, and so counts on a segment that is padded to its alignment."""
        return max(4, int(self.metadata.get(".kernarg_segment_align", 4)))


@dataclass(slots=True)
class Program:
    """A parsed assembly text. ``labels`` maps to instruction indices; ``lds_symbols`` to LDS byte offsets."""

    arch: str
    instructions: list[Instruction]
    labels: dict[str, int]
    kernels: dict[str, Kernel]
    data: DataSection
    lds_symbols: dict[str, int]
    bound: dict[Any, Any] = field(default_factory=dict)

    def kernel(self, name: str | None = None) -> Kernel:
        """The kernel of that name, or the only one. Raises AsmError naming those there are."""
        if name is None and len(self.kernels) == 1:
            return next(iter(self.kernels.values()))
        if name in self.kernels:
            return self.kernels[name]
        wanted = f"kernel {name!r} not found" if name else "the text holds several kernels: name one"
        raise AsmError(f"{wanted}; it holds {', '.join(sorted(self.kernels)) or 'none'}")


class _Parser:
    def __init__(self) -> None:
        self.arch = ""
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.descriptors: dict[str, dict[str, int]] = {}
        self.symbols: dict[str, str] = {}
        self.symbolic: list[tuple[dict[str, int], str, str, int]] = []
        self.files: dict[int, str] = {}
        self.source: tuple[str, int] | None = None
        self.via: str | None = None
        self.section = TEXT
        self.data = DataSection()
        self.metadata_lines: list[str] | None = None
        self.metadata: dict[str, Any] = {}
        self.metadata_line = 0
        self.kernel = ""
        self.descriptor: dict[str, int] | None = None
        self.lds_symbols: dict[str, int] = {}
        self.lds_top = 0
        self.defined: dict[str, int] = {}
        self.places: dict[tuple[str, str], int] = {}

    def parse(self, text: str) -> Program:
        for number, raw in enumerate(text.splitlines(), 1):
            if self.metadata_lines is not None:
                if raw.strip() == ".end_amdgpu_metadata":
                    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
                    self.metadata = yaml.load("\n".join(self.metadata_lines), Loader=loader) or {}
                    self.metadata_lines = None
                else:
                    self.metadata_lines.append(raw)
                continue
            line = strip_comment(raw)
            while match := _LABEL.match(line.strip()):
                self.label(match[1].strip('"'), number, raw)
                line = line.strip()[match.end() :]
            if line.strip():
                self.line(line, number)
        return self.finish()

    def label(self, name: str, number: int, line: str) -> None:
        if self.section == ELSEWHERE:
            return
        if name in self.defined:
            raise AsmError(f"label {name!r} is defined twice, first in line {self.defined[name]}", number, line)
        self.defined[name] = number
        if self.section == TEXT:
            self.labels[name] = len(self.instructions)
        else:
            self.data.symbols[name] = len(self.data.content)

    def line(self, line: str, number: int) -> None:
        word, _, rest = line.strip().partition(" ")
        word, _, tab = word.partition("\t")
        rest = f"{tab} {rest}".strip()
        if word.startswith("."):
            self.directive(word, rest, number, line)
        elif self.section == TEXT:
            self.instruction(line, number)
        else:
            raise AsmError("an instruction outside of .text", number, line)

    def directive(self, word: str, rest: str, number: int, line: str) -> None:
        if self.descriptor is not None and word.startswith(".amdhsa_"):
            self.field(word.removeprefix(".amdhsa_"), rest, number, line)
        elif word == ".amdhsa_kernel":
            name = rest.strip('"')
            if name in self.descriptors:
                raise AsmError(f"kernel {name!r} has a descriptor already; each kernel has one", number, line)
            self.kernel, self.descriptor = name, self.descriptors.setdefault(name, {})
        elif word == ".end_amdhsa_kernel":
            self.descriptor = None
        elif word == ".amdgpu_metadata":
            self.metadata_lines, self.metadata_line = [], number
        elif word == ".amdgcn_target":
            self.target(rest.strip('"'), number, line)
        elif word in (".text", ".data", ".rodata", ".bss"):
            self.section = TEXT if word == ".text" else DATA
        elif word == ".section":
            self.section = self.section_of(rest)
        elif word == ".file":
            self.file(rest)
        elif word == ".loc":
            parts = rest.split()
            path = self.files.get(int(parts[0]))
            name, _, via = (path or "").partition(VIA)
            self.source = (name, int(parts[1])) if name and int(parts[1]) else None
            self.via = via or None
        elif word == ".set":
            name, _, value = rest.partition(",")
            self.symbols[name.strip()] = value.strip()
        elif word == ".amdgpu_lds":
            self.lds(rest)
        elif word in DATA_DIRECTIVES:
            self.datum(word, rest, number, line)
        elif self.section != ELSEWHERE and word not in _PASSED_OVER and not word.startswith(".cfi_"):
            raise UnsupportedError(f"directive {word}", number, line)

    def target(self, target: str, number: int, line: str) -> None:
        """One text is for one architecture: a second, different target is refused."""
        arch = self.arch_of(target, number, line)
        if self.arch and arch != self.arch:
            raise AsmError(f"the text is for {self.arch}, and this says {arch}; it takes one target", number, line)
        self.arch = arch

    @staticmethod
    def arch_of(target: str, number: int, line: str) -> str:
        arch = target.split("-")[-1].split(":")[0]
        if arch not in SUPPORTED_ARCHS:
            raise UnsupportedError(f"target {target!r}; it executes {' and '.join(SUPPORTED_ARCHS)}", number, line)
        return arch

    @staticmethod
    def section_of(rest: str) -> str:
        """Only allocated sections reach the device: debug information and notes are passed over."""
        name, _, flags = rest.partition(",")
        if name.strip('"').startswith(".text"):
            return TEXT
        return DATA if "a" in flags.split(",")[0] else ELSEWHERE

    def file(self, rest: str) -> None:
        parts = re.match(r'(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?', rest)
        if parts:
            directory, name = (parts[2], parts[3]) if parts[3] is not None else ("", parts[2])
            self.files[int(parts[1])] = f"{directory}/{name}" if directory and not name.startswith("/") else name

    def lds(self, rest: str) -> None:
        parts = [p.strip() for p in rest.split(",")]
        align = int(parts[2], 0) if len(parts) > 2 else 4
        self.lds_top = -(-self.lds_top // align) * align
        self.lds_symbols[parts[0]] = self.lds_top
        self.lds_top += int(parts[1], 0)

    def datum(self, word: str, rest: str, number: int, line: str) -> None:
        if self.section == TEXT and word not in _PADDING:
            raise UnsupportedError(f"{word} in .text: only instructions are executed", number, line)
        if self.section == DATA:
            self.data.append(word, rest)

    def field(self, name: str, text: str, number: int, line: str) -> None:
        """A descriptor field: now if a number, else when all symbols are known (callees follow their caller)."""
        assert self.descriptor is not None
        check_name(name, number, line)
        key = (self.kernel, name)
        if key in self.places:
            raise AsmError(f".amdhsa_{name} is given twice, first in line {self.places[key]}", number, line)
        self.places[key] = number
        try:
            value = int(text, 0)
        except ValueError:
            self.symbolic.append((self.descriptor, name, text, number))
            return
        check_value(name, value, number, line)
        self.descriptor[name] = value

    def resolve(self) -> None:
        """Descriptor fields given as expressions, and other names of labels."""
        for name, text in self.symbols.items():
            if text in self.labels:
                self.labels[name] = self.labels[text]
        for descriptor, name, text, number in self.symbolic:
            line = f".amdhsa_{name} {text}"
            try:
                descriptor[name] = evaluate(text, self.symbols)
            except ExpressionError as error:
                raise AsmError(f"cannot evaluate: {error}", number, line) from error
            check_value(name, descriptor[name], number, line)
        for kernel, fields in self.descriptors.items():
            check_whole(kernel, fields)

    def number_of(self, operand: Operand) -> Operand:
        """A symbol that stands for a number, as that number; a label as it is."""
        try:
            return Operand("int", value=evaluate(operand.name, self.symbols))
        except ExpressionError:  # another name of a label, or a symbol that the linker sets
            return operand

    def instruction(self, line: str, number: int) -> None:
        mnemonic, operand_texts, modifiers = lex(line, number)
        name, encoding = mnemonic, ""
        if match := _SUFFIX.search(mnemonic):
            name, encoding = mnemonic[: match.start()], match[1]
        operands: list[Operand] = []
        wait_text = ""
        if name.startswith("s_waitcnt"):
            wait_text, operand_texts = operand_texts[0], []
        for text in operand_texts:
            operand = parse_operand(text)
            if operand is None or operand.is_register:
                if problem := register_problem(text):
                    raise AsmError(problem, number, line)
                if operand is None:
                    raise AsmError(f"cannot read operand {text!r}", number, line)
            known = operand.kind == "label" and operand.name in self.symbols
            operands.append(self.number_of(operand) if known else operand)
        self.instructions.append(
            Instruction(
                name, encoding, tuple(operands), modifiers, line.strip(), number, self.source,
                len(self.instructions), wait_text, self.via,
            )
        )  # fmt: skip

    def kernel_metadata(self) -> dict[str, dict[str, Any]]:
        """Metadata by kernel name. Raises for two of one name and for waves of 32 lanes."""
        found: dict[str, dict[str, Any]] = {}
        for info in self.metadata.get("amdhsa.kernels", []):
            name = info.get(".name", "")
            if name in found:
                raise AsmError(
                    f"kernel {name!r} stands twice in .amdgpu_metadata", self.metadata_line, "amdhsa.kernels"
                )
            lanes = info.get(".wavefront_size", 64)
            if lanes != 64:
                raise UnsupportedError(
                    f"waves of {lanes} lanes (kernel {name!r}); gfx9 has 64", self.metadata_line, ".wavefront_size"
                )
            found[name] = info
        return found

    def finish(self) -> Program:
        self.resolve()
        meta = self.kernel_metadata()
        if self.metadata.get("amdhsa.target"):
            self.target(self.metadata["amdhsa.target"], self.metadata_line, "amdhsa.target")
        kernels = {}
        for name in {**self.descriptors, **meta}:
            if name not in self.labels:
                raise AsmError(f"kernel {name!r} has a descriptor but no label in .text")
            info = meta.get(name, {})
            args = tuple(
                KernelArg(
                    int(a[".offset"]),
                    int(a[".size"]),
                    a[".value_kind"],
                    a.get(".name", ""),
                    a.get(".address_space", ""),
                )
                for a in info.get(".args", ())
            )
            kernels[name] = Kernel(name, self.labels[name], self.descriptors.get(name, {}), info, args)
        if not kernels:
            raise AsmError("no kernel in the text: it needs an .amdhsa_kernel descriptor or .amdgpu_metadata")
        if not self.arch:
            raise AsmError("no .amdgcn_target directive: cannot tell the architecture")
        code = index_moves(self.instructions, frozenset(self.labels.values()))
        return Program(self.arch, code, self.labels, kernels, self.data, self.lds_symbols)


def parse_program(text: str) -> Program:
    """Parse amdgcn assembly as LLVM prints it (FlyDSL ``format=isa``, Triton ``asm["amdgcn"]``).

    Raises AsmError or UnsupportedError with the line. Nothing is executed; unknown mnemonics are found when a
    kernel is bound, and only in code that belongs to the text.
    """
    return _Parser().parse(text)
