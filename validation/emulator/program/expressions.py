"""Symbolic values of assembler directives: what ``.set`` and ``.amdhsa_*`` may be given instead of a number.

LLVM prints the resources of a kernel that calls functions as expressions over symbols of its callees, which follow
later in the text: so values are kept as text and evaluated when all symbols are known. Operators and their precedence
are those of LLVM's assembler for ELF targets; the functions are those of its AMDGPU target (AMDGPUMCExpr).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_TOKEN = re.compile(r'\s*(0[xX][0-9a-fA-F]+|0[bB][01]+|\d+|[A-Za-z_.$][\w.$@]*|"[^"]+"|<<|>>|&&|\|\||[=!<>]=|.)')


def _quotient(a: int, b: int) -> int:
    magnitude = abs(a) // abs(b)
    return magnitude if (a < 0) == (b < 0) else -magnitude


#: Binary operators with their precedence, and comparison results as GNU has them (-1 is true).
_BINARY: dict[str, tuple[int, Callable[[int, int], int]]] = {
    "||": (1, lambda a, b: int(bool(a or b))),
    "&&": (2, lambda a, b: int(bool(a and b))),
    "==": (3, lambda a, b: -int(a == b)),
    "!=": (3, lambda a, b: -int(a != b)),
    "<": (3, lambda a, b: -int(a < b)),
    "<=": (3, lambda a, b: -int(a <= b)),
    ">": (3, lambda a, b: -int(a > b)),
    ">=": (3, lambda a, b: -int(a >= b)),
    "+": (4, lambda a, b: a + b),
    "-": (4, lambda a, b: a - b),
    "|": (5, lambda a, b: a | b),
    "^": (5, lambda a, b: a ^ b),
    "&": (5, lambda a, b: a & b),
    "*": (6, lambda a, b: a * b),
    "/": (6, _quotient),
    "%": (6, lambda a, b: a - b * _quotient(a, b)),
    "<<": (6, lambda a, b: a << b),
    ">>": (6, lambda a, b: a >> b),
}
_UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "+": lambda a: a,
    "~": lambda a: ~a,
    "!": lambda a: int(not a),
}


def _or(*values: int) -> int:
    result = 0
    for value in values:
        result |= value
    return result


def _align_to(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def _total_vgprs(agprs: int, vgprs: int) -> int:
    """The unified file of gfx90a and later: AGPRs start at the next multiple of four."""
    return _align_to(vgprs, 4) + agprs if agprs else vgprs


def _extra_sgprs(_vcc: int, _flat_scratch: int, _xnack: int) -> int:
    """SGPRs at the top of the file: VCC, XNACK mask, FLAT_SCRATCH; all are there with architected flat scratch."""
    return 6


_FUNCTIONS: dict[str, Callable[..., int]] = {
    "max": lambda *values: max(values),
    "or": _or,
    "alignto": _align_to,
    "totalnumvgprs": _total_vgprs,
    "extrasgprs": _extra_sgprs,
}


class ExpressionError(ValueError):
    """A value that cannot be computed: it names the symbol, function or character."""


class _Reader:
    def __init__(self, text: str, symbols: Mapping[str, str], active: tuple[str, ...]) -> None:
        self.tokens = [t for t in _TOKEN.findall(text.strip()) if t.strip()]
        self.position = 0
        self.symbols = symbols
        self.active = active

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ExpressionError(f"{expected or 'a value'} expected, found {token or 'the end'}")
        self.position += 1
        return token

    def binary(self, lowest: int = 1) -> int:
        value = self.unary()
        while (operator := _BINARY.get(self.peek())) and operator[0] >= lowest:
            self.position += 1
            value = operator[1](value, self.binary(operator[0] + 1))
        return value

    def unary(self) -> int:
        token = self.take()
        if token in _UNARY:
            return _UNARY[token](self.unary())
        if token == "(":
            value = self.binary()
            self.take(")")
            return value
        if token[0].isdigit():
            return int(token, 0)
        if self.peek() == "(":
            return self.call(token)
        return self.symbol(token.strip('"'))

    def call(self, name: str) -> int:
        if name not in _FUNCTIONS:
            raise ExpressionError(f"unknown function {name}(); there are {', '.join(sorted(_FUNCTIONS))}")
        self.take("(")
        values = [self.binary()]
        while self.peek() == ",":
            self.position += 1
            values.append(self.binary())
        self.take(")")
        return _FUNCTIONS[name](*values)

    def symbol(self, name: str) -> int:
        if name in self.active:
            raise ExpressionError(f"symbol {name} is defined by itself")
        if name not in self.symbols:
            raise ExpressionError(f"symbol {name} is not defined")
        return evaluate(self.symbols[name], self.symbols, (*self.active, name))


def evaluate(text: str, symbols: Mapping[str, str], active: tuple[str, ...] = ()) -> int:
    """The integer that ``text`` stands for; ``symbols`` maps names to the texts of their ``.set`` values.

    Raises ExpressionError for an undefined or circular symbol, an unknown function or a text that is no expression.
    """
    reader = _Reader(text, symbols, active)
    value = reader.binary()
    if reader.peek():
        raise ExpressionError(f"{reader.peek()!r} is left over")
    return value
