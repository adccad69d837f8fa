"""Rules for memory instructions that touch undefined registers, LDS bytes or scratch bytes.

An undefined address is a finding, and so is undefined data that goes to global memory or into an atomic. Undefined data
that goes to LDS or scratch is remembered there, and comes back with the load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine.transfer import Piece, Request, entry_format
from ..machine.waves import Waves
from ..memory.access import Access, Kind, Space
from ..memory.views import TypedViews
from ..program.operands import EXEC
from .registers import RegisterState, Rule, Watch, matter
from .registers_fillings import cause_of, fillings

U32 = np.uint32
Run = Callable[[Waves], Any]
_FOLLOWED = (Space.LDS, Space.SCRATCH)


def transferred(state: RegisterState, watch: Watch, run: Run) -> Any:
    """Loads, stores and atomics."""
    w, effect = state.w, watch.effect
    em = w.sget64(EXEC)
    matter(state, watch, state.undefined(effect.address, em), "decides an address")
    data = _Data(state, watch) if state.undefined(effect.data, em) else None
    followed = any(space in state.bytes for space in _FOLLOWED)
    request = watch.operation.issue(w) if data is not None or followed else Request([], [])
    if data is not None:
        _report_data(state, watch, data, request)
    result = run(w)
    for piece in request.pieces:
        if piece.access.kind is Kind.STORE and piece.access.space in _FOLLOWED:
            _remember(state, piece.access, data.words(piece) if data is not None else None)
    if effect.writes:
        _load(state, watch, request, em)
    return result


def _load(state: RegisterState, watch: Watch, request: Request, em: Any) -> None:
    operation = watch.operation
    spaces = {piece.access.space for piece in request.pieces if piece.access.kind is Kind.LOAD}
    assert operation.put is not None
    state.settle(watch.effect.writes)
    shadow = state.follow()
    if spaces & state.bytes.keys():
        words = operation.effect(shadow, request)
    elif watch.effect.total:
        state.define(watch.effect.writes, em)
        return
    else:
        words = [np.zeros((state.w.n, 64), U32)] * len(operation.results)
    operation.put(shadow, words)
    undefined = any(np.any(word) for word in words)
    cause = f"`{watch.inst.text}` ({watch.inst.place}) loaded it from bytes that hold nothing defined"
    state.refresh(watch.effect.writes, cause if undefined else "")


class _Data:
    """Undefined bits of what an instruction stores."""

    def __init__(self, state: RegisterState, watch: Watch) -> None:
        self.watch = watch
        form = entry_format(watch.entry) if "format" in watch.entry.options else None
        shift = U32(16 if form is not None and form.half == "hi" else 0)
        mask = U32(0xFFFFFFFF if form is None or form.nbytes >= 4 else (1 << (8 * form.nbytes)) - 1)
        self.keys = watch.effect.data
        self.bits: list[NDArray[Any]] = []
        for key in self.keys:
            if key not in state.dirty:
                bits: Any = np.zeros((state.w.n, 1), U32)
            else:
                bits = state.bits(key)
                bits = bits[:, None] if bits.ndim == 1 else bits
            self.bits.append((bits >> shift) & mask)

    def words(self, piece: Piece) -> list[NDArray[Any]]:
        """Those that a piece of the operation stores; all of them for an atomic."""
        if piece.access.kind is Kind.ATOMIC:
            return self.bits
        count = max(1, piece.access.nbytes // 4)
        first = piece.first * count if self.watch.entry.form == "ds_two" else piece.first
        return self.bits[first : first + count]


def _report_data(state: RegisterState, watch: Watch, data: _Data, request: Request) -> None:
    done: set[int] = set()
    for piece in request.pieces:
        access = piece.access
        if access.kind is Kind.LOAD or (access.kind is Kind.STORE and access.space in _FOLLOWED):
            continue
        role = "is stored" if access.kind is Kind.STORE else "is the operand of an atomic"
        words = data.words(piece)
        first = next(i for i, bits in enumerate(data.bits) if bits is words[0])
        for i, bits in enumerate(words, first):
            where = (bits != 0) & access.mask
            if where.any():
                state.report(watch, data.keys[i], where, role)
                done.add(data.keys[i])
    state.forgive(done)


def _remember(state: RegisterState, access: Access, words: list[NDArray[Any]] | None) -> None:
    """Keep the undefined bits of what was stored; defined data clears them."""
    views = state.bytes.get(access.space)
    undefined = words is not None and any(word.any() for word in words)
    if views is None:
        if not undefined:
            return
        content = state.w.port.spaces[access.space].content
        views = state.bytes[access.space] = TypedViews(np.zeros(len(content), np.uint8))
    offset, inside = state.offsets(access)
    if words is None:
        words = [np.zeros((1, 1), U32)] * max(1, access.nbytes // 4)
    flat = [np.broadcast_to(word, inside.shape)[inside] for word in words]
    views.write(offset[inside], access.nbytes, flat)


def exchanged(state: RegisterState, watch: Watch, run: Run) -> Any:
    """ds_swizzle, ds_permute and ds_bpermute: lanes change places, no memory is touched."""
    w, operation = state.w, watch.operation
    cause = cause_of(state, watch)
    (bits,) = fillings(state, watch, lambda: [np.ascontiguousarray(operation.issue(w).data[0])])
    state.settle(watch.effect.writes)
    assert operation.put is not None
    operation.put(state.follow(), [bits])
    result = run(w)
    state.refresh(watch.effect.writes, cause)
    return result


MEMORY_RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ("smem", "global", "flat", "scratch", "mubuf", "ds", "ds_two", "ds_lane", "ds_count", "ds_transpose"),
        transferred,
    ),
    **dict.fromkeys(("ds_swizzle", "ds_permute"), exchanged),
}
