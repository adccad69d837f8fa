"""Mutation operators: each finds places in a source file where a known kind of mistake can be made, and makes it.

One small module an operator family. Every operator carries examples, a text before and after, which are its
specification and its tests. Operators work on the syntax tree and replace exact spans of the text, so that the rest
of the file, which FlyDSL reads, stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from validation.mutation.edit import EditError
from validation.mutation.operators import atomics, bounds, dtype, host, index, masks, strides, waits, widths
from validation.mutation.operators.base import Operator, Site, sites_of

__all__ = ["OPERATORS", "Operator", "OperatorEdit", "Site", "sites_of"]

#: By name.
OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for module in (index, strides, bounds, masks, widths, atomics, waits, dtype, host)
    for operator in module.OPERATORS
}


@lru_cache(maxsize=64)
def _sites(operator: str, text: str) -> tuple[Site, ...]:
    return tuple(sites_of(OPERATORS[operator], text))


@dataclass(frozen=True)
class OperatorEdit:
    """An operator at the one line of ``file`` that holds the text ``at``; it must find exactly one place there."""

    file: str
    operator: str
    at: str

    def applied_to(self, text: str) -> str:
        """The text after the edit; ``EditError`` unless exactly one place fits."""
        if self.operator not in OPERATORS:
            raise EditError(f"unknown operator {self.operator!r} (operators: {', '.join(OPERATORS)})")
        lines = text.splitlines()
        found = [site for site in _sites(self.operator, text) if self.at in lines[site.line - 1]]
        if len(found) != 1:
            raise EditError(
                f"{self.file}: operator {self.operator} finds {len(found)} places on lines with {self.at!r}, "
                "must be one"
            )
        return found[0].applied_to(text)


@dataclass(frozen=True)
class SiteEdit:
    """The place number ``ordinal`` of an operator in ``file``: what a generated mutant is made of."""

    file: str
    operator: str
    ordinal: int

    def applied_to(self, text: str) -> str:
        """The text after the edit; ``EditError`` when there are fewer places."""
        found = _sites(self.operator, text)
        if self.ordinal >= len(found):
            raise EditError(
                f"{self.file}: operator {self.operator} finds {len(found)} places, no number {self.ordinal}"
            )
        return found[self.ordinal].applied_to(text)
