"""Operands of the assembly text: registers, constants, labels and their source modifiers."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

# Scalar-register file indices (CDNA3 ISA, "SGPRs" and "Scalar operand encodings").
SPECIAL_SGPRS: dict[str, tuple[int, int]] = {
    "flat_scratch": (102, 2),
    "flat_scratch_lo": (102, 1),
    "flat_scratch_hi": (103, 1),
    "xnack_mask": (104, 2),
    "xnack_mask_lo": (104, 1),
    "xnack_mask_hi": (105, 1),
    "vcc": (106, 2),
    "vcc_lo": (106, 1),
    "vcc_hi": (107, 1),
    "m0": (124, 1),
    "exec": (126, 2),
    "exec_lo": (126, 1),
    "exec_hi": (127, 1),
}
TTMP_BASE = 108
SGPR_FILE_SIZE = 128
VCC, EXEC, M0 = 106, 126, 124
#: SGPRs that code can name by number (CDNA3 ISA: s0 to s101; what follows has names).
SGPRS = 102
#: Registers of each kind that instructions can encode.
REGISTER_LIMITS = {"v": 256, "a": 256, "s": SGPRS, "ttmp": 16}

#: Apertures through which FLAT reaches LDS and scratch; bits 63:32 tell them from global addresses.
SHARED_APERTURE = 0x0001_0000_0000_0000
PRIVATE_APERTURE = 0x0002_0000_0000_0000
APERTURES: dict[str, int] = {
    "src_shared_base": SHARED_APERTURE,
    "src_shared_limit": SHARED_APERTURE | 0xFFFFFFFF,
    "src_private_base": PRIVATE_APERTURE,
    "src_private_limit": PRIVATE_APERTURE | 0xFFFFFFFF,
}
#: Conditions that can be read as a scalar source.
CONDITIONS = ("src_scc", "src_vccz", "src_execz", "scc", "vccz", "execz")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand as written.

    kind: ``v`` VGPR, ``a`` AGPR, ``s`` scalar register file, ``int``/``float`` constant, ``label``,
    ``symbol``, ``cond`` (scc/vccz/execz), ``off``, or ``call`` for ``hwreg(...)`` and ``sendmsg(...)``.
    index/count: register number and length in dwords. value: the constant. name: label, symbol or call name.
    """

    kind: str
    index: int = 0
    count: int = 1
    value: int | float = 0
    name: str = ""
    args: tuple[str, ...] = ()
    neg: bool = False
    abs: bool = False
    sext: bool = False

    @property
    def is_register(self) -> bool:
        return self.kind in ("v", "a", "s")

    def __str__(self) -> str:
        if self.is_register:
            last = self.index + self.count - 1
            body = f"{self.kind}{self.index}" if self.count == 1 else f"{self.kind}[{self.index}:{last}]"
        else:
            body = self.name or str(self.value)
        if self.abs:
            body = f"|{body}|"
        return f"-{body}" if self.neg else body


#: Operands that ``s_set_gpr_idx_on`` indexes, as bits of ``gpr_idx(...)`` (LLVM AMDGPU, SIDefines.h "VGPRIndexMode").
GPR_INDEX = {"SRC0": 1, "SRC1": 2, "SRC2": 4, "DST": 8}

_SINGLE = re.compile(r"(ttmp|[vsa])(\d+)")
_RANGE = re.compile(r"(ttmp|[vsa])\[(\d+)(?::(\d+))?\]")
_LIST = re.compile(r"\[\s*([vsa]\d+(?:\s*,\s*[vsa]\d+)*)\s*\]")
_INT = re.compile(r"[+-]?(?:0x[0-9a-fA-F]+|0b[01]+|\d+)")
_FLOAT = re.compile(r"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_CALL = re.compile(r"(hwreg|sendmsg|swizzle|quad_perm)\((.*)\)")
_GPR_INDEX = re.compile(r"gpr_idx\(\s*((?:(?:SRC[012]|DST)\s*,?\s*)*)\)")
_SYMBOL = re.compile(r"[A-Za-z_.$][\w.$@]*(?:\s*[+-]\s*[\w.$@]+)*")


def _register(prefix: str, first: int, count: int) -> Operand:
    if prefix == "ttmp":
        return Operand("s", TTMP_BASE + first, count)
    return Operand(prefix, first, count)


_NAMED = re.compile(r"(?<![\w.$])(ttmp|[vsa])\[?(\d+)(?::(\d+))?")


def register_problem(text: str) -> str:
    """Why a register that ``text`` names does not exist; empty when all do."""
    for prefix, low, high in _NAMED.findall(text):
        first, last, limit = int(low), int(high or low), REGISTER_LIMITS[prefix]
        if last < first:
            return f"the register range {text} runs backwards"
        if last >= limit:
            return f"there is no register {prefix}{last}: {prefix}0 to {prefix}{limit - 1} exist"
    return ""


def _plain(text: str) -> Operand | None:
    if text == "off":
        return Operand("off", name=text)
    if text in SPECIAL_SGPRS:
        index, count = SPECIAL_SGPRS[text]
        return Operand("s", index, count)
    if text in APERTURES:
        return Operand("int", value=APERTURES[text], count=2, name=text)
    if text in CONDITIONS:
        return Operand("cond", name=text.removeprefix("src_"))
    if m := _SINGLE.fullmatch(text):
        return _register(m[1], int(m[2]), 1)
    if m := _RANGE.fullmatch(text):
        first, last = int(m[2]), int(m[3] or m[2])
        return _register(m[1], first, last - first + 1) if last >= first else None
    if m := _LIST.fullmatch(text):
        parts = [_plain(p.strip()) for p in m[1].split(",")]
        first_part = parts[0]
        assert first_part is not None
        run = all(p and p.kind == first_part.kind and p.index == first_part.index + i for i, p in enumerate(parts))
        return Operand(first_part.kind, first_part.index, len(parts)) if run else None
    if _INT.fullmatch(text):
        return Operand("int", value=int(text, 0))
    if _FLOAT.fullmatch(text):
        return Operand("float", value=float(text))
    if m := _CALL.fullmatch(text):
        return Operand("call", name=m[1], args=tuple(a.strip() for a in m[2].split(",")))
    if m := _GPR_INDEX.fullmatch(text):
        return Operand("int", value=sum(GPR_INDEX[name] for name in set(re.findall(r"\w+", m[1]))))
    return None


@lru_cache(maxsize=1 << 16)  # registers are named again and again
def parse_operand(text: str) -> Operand | None:
    """Parse one operand, or return None when the text is none that gfx9 assembly has.

    Accepts the source modifiers in both spellings: ``-v1``, ``|v1|``, ``-|v1|``, ``neg(v1)``, ``abs(v1)``,
    ``sext(v1)``.
    """
    text = text.strip()
    for word in ("neg", "abs", "sext"):
        if text.startswith(word + "(") and text.endswith(")"):
            inner = parse_operand(text[len(word) + 1 : -1])
            if inner is None:
                return None
            return replace(inner, neg=word == "neg" or inner.neg, abs=word == "abs" or inner.abs, sext=word == "sext")
    if text.startswith("-") and not _INT.fullmatch(text) and not _FLOAT.fullmatch(text):
        inner = parse_operand(text[1:])
        return replace(inner, neg=True) if inner else None
    if len(text) > 2 and text[0] == text[-1] == "|":
        inner = parse_operand(text[1:-1])
        return replace(inner, abs=True) if inner else None
    plain = _plain(text)
    if plain is not None:
        return plain
    if _SYMBOL.fullmatch(text):
        return Operand("symbol" if "@" in text or "+" in text or "-" in text else "label", name=text.replace(" ", ""))
    return None
