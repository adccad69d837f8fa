"""Architectural state of a chunk of waves that step together.

Registers are arrays over all waves of the chunk, so one NumPy expression executes one instruction for each of them.

What a step costs besides its arithmetic is kept low in two ways. ``rows`` hands out each register as an array of the
type that the semantics want, so that an instruction whose waves and lanes all take part computes straight into its
destination. And what vector instructions make of scalar registers (a lane mask, the one value that all waves hold) is
remembered until the register is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..program.operands import EXEC, SGPR_FILE_SIZE

if TYPE_CHECKING:
    from ..memory.hierarchy import MemoryPort

LANES = 64
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
ALL_ONES = 0xFFFFFFFFFFFFFFFF


def pack_lanes(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """bool [n, 64] -> uint64 [n], lane i in bit i."""
    return np.packbits(np.ascontiguousarray(mask), bitorder="little").view(np.uint64)


def unpack_lanes(bits: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """uint64 [n] -> bool [n, 64]."""
    octets = np.ascontiguousarray(bits, np.uint64).view(np.uint8)
    return np.unpackbits(octets, bitorder="little").view(bool).reshape(-1, LANES)


@dataclass(frozen=True, slots=True)
class FloatMode:
    """Rounding (0 nearest even, 1 +inf, 2 -inf, 3 zero) and denormal (bit 0 inputs kept, bit 1 outputs kept) fields
    of the MODE register, as ``.amdhsa_float_*`` sets them."""

    round_32: int = 0
    round_16_64: int = 0
    denorm_32: int = 3
    denorm_16_64: int = 3
    dx10_clamp: bool = True
    ieee: bool = True
    fp16_overflow: bool = False


@dataclass(slots=True)
class Identity:
    """Which waves a chunk holds: workgroup coordinates [W, 3], its number in dispatch order [W], wave number in its
    workgroup [W], index of the workgroup in the chunk [W]."""

    workgroup: NDArray[np.int64]
    linear: NDArray[np.int64]
    wave: NDArray[np.int64]
    group: NDArray[np.int64]


class Waves:
    """State of ``count`` waves.

    file: uint32 [registers, waves, 64], VGPRs first, AGPRs from ``agpr_base`` on. ``rows[dtype][r]`` is register ``r``
    as uint32, int32 or float32 [waves, 64]. Whoever writes to either says so with ``touched``, since what was derived
    from a register serves until then; ``V`` is the same file for all who do not keep to that.
    S: uint32 [128, waves]. ``scc``: bool [waves]. ``exec_mask``: bool [waves, 64], in step with S[126:128].
    ``sel``: None when every wave of the chunk steps now, else the int index array of those that do.
    ``em``: exec mask of the selected waves; ``full``: every lane of them is active. ``n``: how many are selected.
    """

    __slots__ = (
        "S", "S64", "_any_write", "_em_bits", "_em_bits_of", "_masks", "_pairs", "_uniform", "agpr_base", "clock",
        "count", "em", "exec_mask", "extra", "file", "full", "ident", "in_flight", "mode", "n", "pc", "port", "rows",
        "scc", "sel", "stamps",
    )  # fmt: skip

    def __init__(self, ident: Identity, vgprs: int, agprs: int, mode: FloatMode, port: MemoryPort) -> None:
        self.count = self.n = len(ident.wave)
        self.ident = ident
        self.agpr_base = vgprs
        self.file = np.zeros((vgprs + agprs, self.count, LANES), np.uint32)
        self.rows: dict[type, list[NDArray[Any]]] = {
            t: list(self.file.view(t)) for t in (np.uint32, np.int32, np.float32)
        }
        self.clock = self._any_write = 0
        self.stamps = [0] * (vgprs + agprs)
        # One row a wave, so that an aligned pair is one 64-bit element; S and S64 are the transposed views.
        file = np.zeros((self.count, SGPR_FILE_SIZE // 2), np.uint64)
        self.S64 = file.T
        self.S = file.view(np.uint32).T
        self.scc = np.zeros(self.count, bool)
        self.exec_mask = np.ones((self.count, LANES), bool)
        self.S[EXEC : EXEC + 2] = 0xFFFFFFFF
        self.pc = np.zeros(self.count, np.int64)
        self.mode = mode
        self.port = port
        self.extra: dict[str, Any] = {}
        #: memory operations issued and not yet retired, where the launch models them (machine/in_flight.py)
        self.in_flight: Any = None
        self.sel: NDArray[np.intp] | None = None
        self.em = self.exec_mask
        self.full = True
        self._em_bits_of: NDArray[np.bool_] | None = None
        self._em_bits = np.zeros((0, LANES), np.uint32)
        self._pairs: dict[int, NDArray[np.float32]] = {}
        #: register -> the selection for which it was made, and what
        self._masks: dict[int, tuple[Any, NDArray[np.bool_]]] = {}
        self._uniform: dict[int, tuple[Any, Any]] = {}

    # -- selection ------------------------------------------------------------------------------------------------
    def select(self, sel: NDArray[np.intp] | None) -> None:
        """Make ``sel`` the waves that step; None for all of the chunk."""
        self.sel = sel
        self.n = self.count if sel is None else len(sel)
        self.refresh_exec()

    def refresh_exec(self) -> None:
        self.em = self.exec_mask if self.sel is None else self.exec_mask[self.sel]
        self.full = bool(self.em.all())
        self._em_bits_of = None

    def em_bits(self) -> NDArray[np.uint32]:
        """The exec mask as all-ones or zero words [n, 64]: ``np.copyto(where=)`` is ten times slower on patchy ones."""
        if self._em_bits_of is not self.em:
            self._em_bits_of = self.em
            self._em_bits = np.negative(self.em.view(np.int8), dtype=np.int32, casting="unsafe").view(np.uint32)
        return self._em_bits

    # -- vector registers -----------------------------------------------------------------------------------------
    @property
    def V(self) -> NDArray[np.uint32]:  # noqa: N802 - the architecture's name
        """The register file, to read or write at will: every register counts as written now."""
        self.clock += 1
        self._any_write = self.clock
        return self.file

    @property
    def VF(self) -> NDArray[np.float32]:  # noqa: N802
        """``V`` as float32."""
        return self.V.view(np.float32)

    def vget(self, r: int) -> NDArray[np.uint32]:
        """uint32 [n, 64]; a view when all waves step: never write to it."""
        v = self.rows[np.uint32][r]
        return v if self.sel is None else v[self.sel]

    def touched(self, r: int, count: int = 1) -> None:
        """Registers from ``r`` on have been, or are about to be, written."""
        self.clock += 1
        for i in range(r, r + count):
            self.stamps[i] = self.clock

    def stamp(self, r: int, count: int) -> int:
        """Time of the last write to any of these registers."""
        return max(self._any_write, *self.stamps[r : r + count])

    def pair(self, r: int) -> NDArray[np.float32]:
        """Registers ``r`` and ``r + 1`` of all waves as float32 [2, waves, 64]: a view."""
        pair = self._pairs.get(r)
        if pair is None:
            pair = self._pairs[r] = self.file[r : r + 2].view(np.float32)
        return pair

    def vput(self, r: int, value: Any) -> None:
        """Write uint32 values (broadcastable to [n, 64]) to the active lanes."""
        self.clock += 1
        self.stamps[r] = self.clock
        v = self.rows[np.uint32][r]
        if self.full:
            if self.sel is None:
                v[...] = value
            else:
                v[self.sel] = value
        elif self.sel is None:
            v ^= (v ^ value) & self.em_bits()
        else:
            old = v[self.sel]
            v[self.sel] = old ^ ((old ^ value) & self.em_bits())

    def vput_masked(self, r: int, value: Any, mask: NDArray[np.bool_]) -> None:
        """Write to the lanes of ``mask`` [n, 64], whatever EXEC says (the caller has applied it)."""
        self.touched(r)
        v = self.file[r]
        if self.sel is None:
            np.copyto(v, value, where=mask)
        else:
            old = v[self.sel]
            np.copyto(old, value, where=mask)
            v[self.sel] = old

    # -- scalar registers -----------------------------------------------------------------------------------------
    def sget(self, r: int) -> NDArray[np.uint32]:
        """uint32 [n]."""
        s = self.S[r]
        return s if self.sel is None else s[self.sel]

    def uniform(self, r: int) -> Any:
        """The one value (np.uint32) that all selected waves hold, or None."""
        known = self._uniform.get(r)
        if known is None or known[0] is not self.sel:
            s = self.sget(r)
            first = s[0]
            known = self._uniform[r] = (self.sel, first if (s == first).all() else None)
        return known[1]

    def forget(self, r: int) -> None:
        """Scalar register ``r`` has changed."""
        self._uniform.pop(r, None)
        self._masks.pop(r & ~1, None)

    def sget64(self, r: int) -> NDArray[np.uint64]:
        if not r & 1:
            s = self.S64[r >> 1]
            return s if self.sel is None else s[self.sel]
        return self.sget(r).astype(np.uint64) | (self.sget(r + 1).astype(np.uint64) << _SHIFT)

    def sput(self, r: int, value: Any) -> None:
        if self.sel is None:
            self.S[r] = value
        else:
            self.S[r, self.sel] = value
        self._uniform.pop(r, None)
        self._masks.pop(r & ~1, None)
        if r >= EXEC:
            self.sync_exec()

    def sput64(self, r: int, value: Any) -> None:
        if r & 1:  # not aligned: the assembler does not write this, but nothing here depends on it
            value = np.asarray(value, np.uint64)
            self.sput(r, (value & _LOW).astype(np.uint32))
            self.sput(r + 1, (value >> _SHIFT).astype(np.uint32))
            return
        if self.sel is None:
            self.S64[r >> 1] = value
        else:
            self.S64[r >> 1, self.sel] = value
        self._uniform.pop(r, None)
        self._uniform.pop(r + 1, None)
        self._masks.pop(r, None)
        if r >= EXEC:
            self.sync_exec()

    def sync_exec(self) -> None:
        """Recompute the exec mask from S[126:128]."""
        bits = self.sget64(EXEC)
        if (bits == ALL_ONES).all():
            mask: Any = True
        else:
            mask = unpack_lanes(bits)
        if self.sel is None:
            self.exec_mask[...] = mask
        else:
            self.exec_mask[self.sel] = mask
        self.refresh_exec()

    def mask_get(self, r: int) -> NDArray[np.bool_]:
        """Lane mask in the pair at ``r`` as bool [n, 64]: never write to it."""
        if r == EXEC:
            return self.em
        if r & 1:
            return unpack_lanes(self.sget64(r))
        known = self._masks.get(r)
        if known is None or known[0] is not self.sel:
            known = self._masks[r] = (self.sel, unpack_lanes(self.sget64(r)))
        return known[1]

    def mask_put(self, r: int, mask: Any) -> None:
        """Write a lane mask; inactive lanes get 0, as every VALU compare does."""
        if np.shape(mask) != (self.n, LANES):
            mask = np.broadcast_to(mask, (self.n, LANES))
        if not self.full:
            mask = mask & self.em
        self.sput64(r, pack_lanes(mask))
        if r < EXEC and not r & 1:
            self._masks[r] = (self.sel, mask)

    def scc_get(self) -> NDArray[np.bool_]:
        return self.scc if self.sel is None else self.scc[self.sel]

    def scc_put(self, value: Any) -> None:
        if self.sel is None:
            self.scc[...] = value
        else:
            self.scc[self.sel] = value


@dataclass(slots=True)
class BindContext:
    """What a binder may depend on besides the instruction itself."""

    arch: str
    mode: FloatMode
    agpr_base: int
    labels: dict[str, int]
    symbol_address: Any
    code_base: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
