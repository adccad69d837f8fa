"""Upper bounds as expressions over named quantities, and the smallest quantities that break one.

Everything counts elements or bytes and is taken as non-negative: ``a - b`` is bounded by ``a``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from validation.width_scan.limits import Role

#: An expression of more nodes than this becomes a single quantity, with the same bound.
_MAX_NODES = 160
_HUGE = 2**80


@dataclass(slots=True, eq=False)  # never changed; frozen would double the time of a scan
class Sym:
    """A bound: `op` is "num", "leaf" or one of ``+ * // % min max``; `hi` and `lo` follow from the limits.

    `below` names the parameter that a leaf stays below, where a mask says so. `less` is what a witness takes off: 1 for
    an index that does not reach the end which the expression names (``range(n)``); `hi` leaves it out.
    """

    op: str
    hi: int
    lo: int
    text: str = ""
    role: Role | None = None
    a: Sym | None = None
    b: Sym | None = None
    nodes: int = 1
    below: str = ""
    less: int = 0


def num(value: int) -> Sym:
    """A known number (its magnitude)."""
    value = min(abs(value), _HUGE)
    return Sym("num", value, value, str(value))


ZERO = num(0)


def leaf(text: str, role: Role, limit: int | None = None, below: str = "") -> Sym:
    """A named quantity bounded by its role, or by `limit`."""
    hi = role.limit if limit is None else limit
    return Sym("leaf", hi, min(role.low, hi), text, role, below=below)


def before(end: Sym) -> Sym:
    """The last index before `end`."""
    return replace(end, less=1)


def _node(op: str, a: Sym, b: Sym, hi: int, lo: int) -> Sym:
    hi, nodes = min(hi, _HUGE), a.nodes + b.nodes + 1
    if nodes > _MAX_NODES:
        role = Role("expression", hi, hi, lo, "", "bound of a long expression")
        return Sym("leaf", hi, lo, "the index so far", role)
    return Sym(op, hi, min(lo, hi), "", None, a, b, nodes)


def add(a: Sym, b: Sym) -> Sym:
    """a + b."""
    if a.hi == 0 or b.hi == 0:
        return b if a.hi == 0 else a
    return _node("+", a, b, a.hi + b.hi, a.lo + b.lo)


def _same(a: Sym, b: Sym) -> bool:
    """Whether two expressions are spelt alike."""
    if a is b:
        return True
    if (a.op, a.nodes, a.text) != (b.op, b.nodes, b.text):
        return False
    return a.a is None or b.a is None or a.b is None or b.b is None or (_same(a.a, b.a) and _same(a.b, b.b))


def multiply(a: Sym, b: Sym) -> Sym:
    """a * b; (x // t) * t is x."""
    for quotient, factor in ((a, b), (b, a)):
        if quotient.op == "//" and quotient.b is not None and quotient.a is not None and _same(quotient.b, factor):
            return quotient.a
    if a.op == "num" and a.hi == 1:
        return b
    if b.op == "num" and b.hi == 1:
        return a
    return _node("*", a, b, a.hi * b.hi, a.lo * b.lo)


def subtract(a: Sym, b: Sym) -> Sym:
    """a - b, at most a; (x + y) - x is y."""
    if a.op == "+" and a.a is not None and a.b is not None:
        for taken, rest in ((a.a, a.b), (a.b, a.a)):
            if _same(taken, b):
                return rest
    return a


def divide(a: Sym, b: Sym) -> Sym:
    """a // b; (x * d) // d is x."""
    if a.op == "*" and a.a is not None and a.b is not None:
        for factor, rest in ((a.a, a.b), (a.b, a.a)):
            if _same(factor, b):
                return rest
        if a.a.op == "*":
            inner = divide(a.a, b)
            if inner.op != "//":
                return multiply(inner, a.b)
    return _node("//", a, b, a.hi // max(b.lo, 1), a.lo // max(b.hi, 1))


def modulo(a: Sym, b: Sym) -> Sym:
    """a % b."""
    return _node("%", a, b, min(a.hi, max(b.hi - 1, 0)), 0)


def minimum(a: Sym, b: Sym) -> Sym:
    """min(a, b)."""
    return _node("min", a, b, min(a.hi, b.hi), min(a.lo, b.lo))


def maximum(a: Sym, b: Sym) -> Sym:
    """max(a, b)."""
    if a is b:
        return a
    return _node("max", a, b, max(a.hi, b.hi), max(a.lo, b.lo))


def factors(sym: Sym) -> list[Sym]:
    """What a product is the product of; `sym` itself if it is none."""
    if sym.op == "*" and sym.a is not None and sym.b is not None:
        return [*factors(sym.a), *factors(sym.b)]
    return [sym]


def within(sym: Sym, limit: int) -> Sym:
    """`sym` with each quantity at most `limit`."""
    if sym.a is None or sym.b is None:
        if sym.role is None or sym.hi <= limit:
            return sym
        return replace(leaf(sym.text, sym.role, limit, sym.below), less=sym.less)
    a, b = within(sym.a, limit), within(sym.b, limit)
    return sym if a is sym.a and b is sym.b else replace(_BUILDERS[sym.op](a, b), less=sym.less)


_BUILDERS: dict[str, Callable[[Sym, Sym], Sym]] = {
    "+": add,
    "*": multiply,
    "//": divide,
    "%": modulo,
    "min": minimum,
    "max": maximum,
}


def quantities(sym: Sym) -> list[Sym]:
    """The named quantities of an expression, in order, each once."""
    found: dict[str, Sym] = {}
    seen: set[int] = set()
    stack = [sym]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.op == "leaf":
            found.setdefault(node.text, node)
        for child in (node.b, node.a):
            if child is not None:
                stack.append(child)
    return list(found.values())


def evaluate(sym: Sym, values: dict[str, int]) -> int:
    """The bound with each quantity at its value."""
    done: dict[int, int] = {}

    def walk(node: Sym) -> int:
        if node.op in ("num", "leaf"):
            return max((node.hi if node.op == "num" else values[node.text]) - node.less, 0)
        key = id(node)
        if key not in done:
            assert node.a is not None
            assert node.b is not None
            done[key] = max(_OPERATIONS[node.op](walk(node.a), walk(node.b)) - node.less, 0)
        return done[key]

    return walk(sym)


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // max(b, 1),
    "%": lambda a, b: min(a, max(b - 1, 0)),
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
}


def _divisors(sym: Sym) -> set[str]:
    """Quantities that appear in a divisor: a witness takes them at their low end."""
    names: set[str] = set()
    stack = [sym]
    while stack:
        node = stack.pop()
        if node.op == "//" and node.b is not None:
            names |= {q.text for q in quantities(node.b)}
        stack.extend(child for child in (node.a, node.b) if child is not None)
    return names


def witness(sym: Sym, threshold: int) -> dict[str, int] | None:
    """The smallest values, within the limits, for which the bound exceeds `threshold`.

    Starts from typical values, raises as few quantities as it takes (the ones with the most room first), then
    lowers each in turn as far as it goes: no value of the result can be lowered on its own.

    Returns:
        Values by quantity, or None if no values within the limits are enough.
    """
    divisors = _divisors(sym)
    if not divisors:
        return _smallest(sym, threshold, divisors)
    factors_too = divisors & {q.text for q in _undivided(sym)}  # ``a * h + i // (g // h)``: small is not always worst
    found = _smallest(sym, threshold, divisors)
    return _smallest(sym, threshold, divisors - factors_too) if found is None and factors_too else found


def _undivided(sym: Sym) -> list[Sym]:
    """The quantities of an expression that appear elsewhere than in a divisor."""
    found: list[Sym] = []
    stack = [sym]
    while stack:
        node = stack.pop()
        if node.op == "leaf":
            found.append(node)
        if node.a is not None:
            stack.append(node.a)
        if node.b is not None and node.op != "//":
            stack.append(node.b)
    return found


def _smallest(sym: Sym, threshold: int, low: set[str]) -> dict[str, int] | None:
    """:func:`witness`, with the quantities of `low` at their low end."""
    named = quantities(sym)
    values = {q.text: q.lo if q.text in low else min(q.role.typical, q.hi) if q.role else q.hi for q in named}
    tops = {q.text: q.lo if q.text in low else q.hi for q in named}
    for q in sorted(named, key=lambda q: tops[q.text] / max(values[q.text], 1), reverse=True):
        if evaluate(sym, values) > threshold:
            break
        values[q.text] = tops[q.text]
    if evaluate(sym, values) <= threshold:
        return None
    for q in sorted(named, key=lambda q: values[q.text], reverse=True):
        if q.text in low:
            continue
        below, enough = 0, values[q.text]
        while enough - below > 1:
            middle = (below + enough) // 2
            if evaluate(sym, {**values, q.text: middle}) > threshold:
                enough = middle
            else:
                below = middle
        values[q.text] = enough
    return values
