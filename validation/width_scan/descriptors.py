"""FlyDSL's buffer descriptors: 32 bits of size and of offset, in bytes."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from validation.width_scan.frames import Frame
from validation.width_scan.limits import BUFFER_SPAN
from validation.width_scan.prepass import parameters
from validation.width_scan.sites import new_site
from validation.width_scan.values import NO_SITES, OTHER, Kind, Value

if TYPE_CHECKING:
    from validation.width_scan.calls import Call

_SIZE = ("num_records_bytes", "num_records", "size_bytes", "num_bytes")


def descriptor(this: Call) -> Value:
    """A descriptor over ``num_records_bytes`` from a base; the base itself is a 64-bit address.

    A size known at compile time that the limits let exceed 4 GiB is an error: nothing at run time can refuse it.
    One that comes from a run-time size is a warning: the caller can, and must.
    """
    position = 1
    size = this.argument(position, *_SIZE)
    this.report(*this.args[:1])
    if size is None or size.kind is not Kind.INT or size.sym.hi == 0:
        return Value(Kind.BUFFER)
    sites = NO_SITES
    if size.sym.hi > BUFFER_SPAN:
        frame, node = _owner(this.frame, this.node, this.expression(position, *_SIZE))
        sites = new_site(
            frame,
            "span",
            node,
            size.sym,
            OTHER,
            OTHER,
            threshold=BUFFER_SPAN,
            unit="bytes",
            level="error" if not size.source else "warning",
        )
    return Value(Kind.BUFFER, sym=size.sym, sites=sites)


def _owner(frame: Frame, node: ast.Call, size: ast.expr | None) -> tuple[Frame, ast.Call]:
    """The call that chose the size: through helpers that only hand it on."""
    while isinstance(size, ast.Name) and frame.caller is not None and frame.call is not None:
        names = [arg.arg for arg in parameters(frame.function)]
        if size.id not in names:
            break
        keyword = next((k.value for k in frame.call.keywords if k.arg == size.id), None)
        position = names.index(size.id)
        passed = (
            keyword if keyword is not None else (frame.call.args[position] if position < len(frame.call.args) else None)
        )
        if passed is None:
            break
        node, size, frame = frame.call, passed, frame.caller
    return frame, node
