"""Abstract values: what the scanner knows of one expression."""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass, field, replace
from typing import Any

from validation.width_scan import symbols
from validation.width_scan.limits import DEFAULT_CONSTANT, Role, role_of
from validation.width_scan.symbols import ZERO, Sym


class Kind(enum.Enum):
    """What sort of thing a value is."""

    INT = "integer"
    POINTER = "pointer"
    BUFFER = "buffer descriptor"
    BOOL = "boolean"
    DATA = "data"  # floating point, or memory contents that no address uses
    SEQUENCE = "sequence"
    FUNCTION = "function"
    OTHER = "unknown"


#: Integer widths. A compile-time integer is Python's: it never wraps, and takes the width of what it meets.
CONSTANT, NARROW, WIDE = 0, 32, 64


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """One side of an overflowing operation, and whether widening it is the fix."""

    node: ast.expr
    text: str
    variable: str
    line: int
    source: str  # "program id", "loaded value", "parameter", "derived value"
    constant: bool


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A 32-bit operation, or a descriptor, that exceeds its range within the limits."""

    rule: str
    path: str
    function: str
    dialect: str
    node: ast.AST
    line: int
    column: int
    end_line: int
    text: str
    sym: Sym
    threshold: int
    unit: str
    operands: tuple[Operand, ...]
    level: str = "error"
    anchor: tuple[str, int] = ("", 0)

    @property
    def key(self) -> tuple[str, int, int, str]:
        """Two sites with the same key are one: a function is evaluated once for each kind of call."""
        return (self.path, self.line, self.column, self.rule)


Sites = frozenset[Site]
NO_SITES: Sites = frozenset()


@dataclass(slots=True, eq=False)  # never changed; frozen would double the time of a scan
class Value:
    """An abstract value.

    `source` says where an integer's run-time part comes from; `variable` and `line` which assignment holds it;
    `tile` is the node of a block id x tile product in it, whose extent only a mask tells.
    """

    kind: Kind
    width: int = NARROW
    sym: Sym = ZERO
    sites: Sites = NO_SITES
    source: str = ""
    role: str = ""
    variable: str = ""
    line: int = 0
    tile: ast.expr | None = None
    items: tuple[Value, ...] | None = None
    element: Value | None = None
    function: Any = None
    literal: Any = None
    fields: dict[str, Value] | None = None  # of an instance, whose class is its `role`

    @property
    def is_constant(self) -> bool:
        """Known at compile time."""
        return self.kind is Kind.INT and self.width == CONSTANT

    @property
    def is_index(self) -> bool:
        """A run-time position: from a block id, a loop or a loaded value, not from a parameter alone."""
        return self.source in ("program id", "loaded value", "loop")


OTHER = Value(Kind.OTHER)
BOOL = Value(Kind.BOOL)
DATA = Value(Kind.DATA)


def integer(sym: Sym, width: int, source: str = "", role: str = "", **rest: Any) -> Value:
    """An integer value."""
    return Value(Kind.INT, width, sym, source=source, role=role, **rest)


def constant(value: int) -> Value:
    """A known compile-time number."""
    return Value(Kind.INT, CONSTANT, symbols.num(value), literal=value)


def named_constant(name: str) -> Value:
    """A compile-time number of unknown value, bounded by what its name says.

    A compile-time count of rows, tokens or columns is an extent of a tile.
    """
    role = role_of(name, constant=True)
    if (role.name in ("tokens", "elements") and name not in ("M", "N")) or name.rpartition(".")[2] in (
        "columns",
        "cols",
    ):
        role = replace(role, name="tile", limit=1024, typical=128, low=1)
    return integer(symbols.leaf(name, role), CONSTANT, role=role.name)


def quantity(name: str, role: Role, width: int, source: str, limit: int | None = None) -> Value:
    """A run-time number named by `name`."""
    return integer(symbols.leaf(name, role, limit), width, source, role.name)


def sequence(items: list[Value]) -> Value:
    """A tuple or list."""
    return Value(Kind.SEQUENCE, items=tuple(items), element=join_all(items), sites=_sites(items))


def _sites(values: list[Value] | tuple[Value, ...]) -> Sites:
    found: Sites = NO_SITES
    for value in values:
        if value.sites:
            found = found | value.sites if found else value.sites
    return found


def join_all(values: list[Value]) -> Value:
    """One value that stands for any of several."""
    if not values:
        return OTHER
    joined = values[0]
    for value in values[1:]:
        joined = join(joined, value)
    return joined


def join(a: Value, b: Value, guarded: bool = False) -> Value:
    """What is known after either of two paths.

    Args:
        guarded: the path is chosen at compile time, so where one of the two is wide the narrow one is for
            launches that the host knows to be small: the result is wide, without the narrow path's sites.
    """
    if a is b:
        return a
    if a.fields is not None and b.fields is not None and a.role == b.role:
        both = {name: join(value, b.fields.get(name, value), guarded) for name, value in a.fields.items()}
        return replace(a, fields=b.fields | both, sites=a.sites | b.sites)
    if a.kind is not b.kind:
        other = {a.kind, b.kind} & {Kind.OTHER, Kind.DATA}
        if not other:
            return replace(a, kind=Kind.OTHER, sites=a.sites | b.sites)
        keep = b if a.kind in other else a
        return replace(keep, sites=a.sites | b.sites)
    if a.kind is Kind.SEQUENCE:
        if a.items is not None and b.items is not None and len(a.items) == len(b.items):
            return sequence([join(x, y, guarded) for x, y in zip(a.items, b.items, strict=True)])
        return Value(Kind.SEQUENCE, element=join(a.element or OTHER, b.element or OTHER), sites=a.sites | b.sites)
    if a.kind is not Kind.INT:
        return replace(a, sites=a.sites | b.sites) if b.sites - a.sites else a
    bigger = a if a.sym.hi >= b.sym.hi else b
    if guarded and WIDE in (a.width, b.width) and a.width != b.width:
        return replace(bigger, width=WIDE, sites=(a if a.width == WIDE else b).sites, literal=None)
    # a compile-time path does not narrow, a 32-bit one does
    width = min(a.width, b.width) or max(a.width, b.width)
    holder = a if a.width == width and a.source else b if b.source else bigger
    return replace(
        holder,
        width=width,
        sym=bigger.sym,
        sites=a.sites | b.sites,
        literal=a.literal if a.literal == b.literal else None,
    )


@dataclass(slots=True)
class Function:
    """A function that device code may call, with the scope that it closes over."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    module: Any
    scope: Any
    qualified: str
    kind: str = "plain"  # "kernel", "device", "launcher", "plain"
    dialect: str = ""
    pointers: frozenset[str] | None = None
    caps: dict[str, list[tuple[ast.expr, bool]]] | None = field(default=None)
    nodes: list[ast.AST] | None = None


__all__ = [
    "BOOL",
    "CONSTANT",
    "DATA",
    "DEFAULT_CONSTANT",
    "NARROW",
    "NO_SITES",
    "OTHER",
    "WIDE",
    "Function",
    "Kind",
    "Operand",
    "Site",
    "Sites",
    "Value",
    "constant",
    "integer",
    "join",
    "join_all",
    "named_constant",
    "quantity",
    "sequence",
]
