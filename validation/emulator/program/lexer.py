"""One line of assembly to mnemonic, operand texts and modifiers."""

from __future__ import annotations

import re
from typing import Any

from ..errors import AsmError, UnsupportedError

#: Modifiers that stand alone.
FLAGS = frozenset(
    [
        "offen",
        "idxen",
        "addr64",
        "sc0",
        "sc1",
        "nt",
        "glc",
        "slc",
        "dlc",
        "scc",
        "lds",
        "gds",
        "clamp",
        "tfe",
        "lwe",
        "unorm",
        "off",
        "high",
        "row_mirror",
        "row_half_mirror",
    ]
)
#: Modifiers of the form ``name:value`` whose value is an integer, a bit list or a name.
VALUES = frozenset(
    [
        "offset",
        "offset0",
        "offset1",
        "op_sel",
        "op_sel_hi",
        "neg_lo",
        "neg_hi",
        "quad_perm",
        "row_shl",
        "row_shr",
        "row_ror",
        "row_bcast",
        "row_newbcast",
        "row_share",
        "row_xmask",
        "wave_shl",
        "wave_rol",
        "wave_shr",
        "wave_ror",
        "row_mask",
        "bank_mask",
        "bound_ctrl",
        "fi",
        "dst_sel",
        "dst_unused",
        "src0_sel",
        "src1_sel",
        "mul",
        "div",
        "cbsz",
        "abid",
        "blgp",
        "bitop3",
        "byte_sel",
        "format",
        "dim",
        "dmask",
        "a16",
        "th",
        "scope",
        "neg",
    ]
)
_MODIFIER = re.compile(r"([a-z]\w*):(.+)", re.DOTALL)
_NESTING = re.compile(r"[\"\[\]()]")
_WAIT = re.compile(r"(\w+)\((\d+)\)")


def split_top(text: str, separators: str) -> list[str]:
    """Split at any of ``separators`` outside of brackets, parentheses and quotes; drops empty parts."""
    if not _NESTING.search(text):
        for other in separators[1:]:
            text = text.replace(other, separators[0])
        return [p.strip() for p in text.split(separators[0]) if p.strip()]
    parts, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        elif quoted:
            continue
        elif c in "[(":
            depth += 1
        elif c in "])":
            depth -= 1
        elif depth == 0 and c in separators:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [p.strip() for p in parts if p.strip()]


def strip_comment(line: str) -> str:
    """The line without a trailing ``;`` or ``//`` comment (quotes respected)."""
    if ";" not in line and "//" not in line:
        return line.rstrip()
    quoted = False
    for i, c in enumerate(line):
        if c == '"':
            quoted = not quoted
        elif not quoted and (c == ";" or line.startswith("//", i)):
            return line[:i].rstrip()
    return line.rstrip()


def _value(text: str) -> Any:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return tuple(_value(t) for t in text[1:-1].split(","))
    try:
        return int(text, 0)
    except ValueError:
        return text


def lex(line: str, number: int) -> tuple[str, list[str], dict[str, Any]]:
    """Mnemonic, operand texts and modifiers of one instruction line (comment already stripped).

    Raises UnsupportedError for a modifier of the right form whose name is unknown.
    """
    words = line.strip().split(None, 1)
    mnemonic = words[0]
    rest = words[1] if len(words) > 1 else ""
    operands: list[str] = []
    modifiers: dict[str, Any] = {}
    if mnemonic.startswith("s_waitcnt"):
        return mnemonic, [rest.strip()], {}
    for i, chunk in enumerate(split_top(rest, ",")):
        for j, token in enumerate(split_top(chunk, " \t")):
            match = _MODIFIER.fullmatch(token)
            if match and match[1] in VALUES:
                modifiers[match[1]] = _value(match[2])
            elif match:
                raise UnsupportedError(f"modifier {match[1]!r}", number, line)
            elif token in FLAGS and not (token == "off" and (j == 0 or len(operands) <= i)):
                modifiers[token] = True
            else:
                operands.append(token)
    return mnemonic, operands, modifiers


def parse_waitcnt(text: str, number: int, line: str) -> dict[str, int]:
    """Counters that an ``s_waitcnt`` operand names, e.g. ``{"vmcnt": 0}``; a counter not named is not waited for.

    Accepts the named form and the raw encoding (vmcnt bits 15:14 and 3:0, expcnt 6:4, lgkmcnt 11:8).
    """
    found = {m[1]: int(m[2]) for m in _WAIT.finditer(text)}
    if found:
        unknown = set(found) - {"vmcnt", "lgkmcnt", "expcnt"}
        if unknown or _WAIT.sub("", text).replace("&", "").strip():
            raise AsmError("s_waitcnt takes vmcnt(n), lgkmcnt(n) and expcnt(n)", number, line)
        return found
    try:
        raw = int(text, 0)
    except ValueError:
        raise AsmError("s_waitcnt takes vmcnt(n) lgkmcnt(n) expcnt(n) or an integer", number, line) from None
    fields = {"vmcnt": (raw & 0xF) | ((raw >> 10) & 0x30), "expcnt": (raw >> 4) & 7, "lgkmcnt": (raw >> 8) & 0xF}
    ones = {"vmcnt": 63, "expcnt": 7, "lgkmcnt": 15}
    return {k: v for k, v in fields.items() if v != ones[k]}
