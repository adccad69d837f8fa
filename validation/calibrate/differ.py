"""Two results, element by element: how many bits patterns differ, by how many ULPs, and where the worst are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from validation.operation import JsonDict

#: Formats: width in bits, and the bits of the exponent, which are all ones in an infinity or a NaN.
FORMATS = {
    "float16": (16, 0x7C00),
    "bfloat16": (16, 0x7F80),
    "float32": (32, 0x7F80_0000),
    "float64": (64, 0x7FF0_0000_0000_0000),
}
#: How many elements of a difference a report shows.
SHOWN = 4
EQUAL, DIFFERENT, LOST, NOT_COMPARED = STATUSES = ("equal", "different", "lost", "not compared")
KINDS = ("vector", "kernel")


@dataclass(frozen=True)
class Element:
    """One element that differs: bit patterns of ``bits`` bits, and the format they are in, if it is a float's."""

    where: str
    emulator: int
    device: int
    bits: int
    format: str | None = None

    @property
    def ulps(self) -> int | None:
        """Representable values between the two; ``None`` where a NaN is one of them, or for no float."""
        if self.format is None:
            return None
        width, exponent = FORMATS[self.format]
        sign = 1 << (width - 1)
        if any(value & (sign - 1) > exponent for value in (self.emulator, self.device)):
            return None
        places = [-(value & (sign - 1)) if value & sign else value for value in (self.emulator, self.device)]
        return abs(places[0] - places[1])

    def as_json(self) -> JsonDict:
        """The form the report holds."""
        digits = self.bits // 4
        return {
            "where": self.where,
            "emulator": f"0x{self.emulator:0{digits}x}",
            "device": f"0x{self.device:0{digits}x}",
            "ulps": self.ulps,
        }


def row(kind: str, identity: str, what: str, status: str, reason: str = "", **figures: Any) -> JsonDict:
    """One entry of the report's part; ``figures`` are those of :func:`compared`."""
    if kind not in KINDS or status not in STATUSES:
        raise ValueError(f"{kind!r} {status!r} is no entry (kinds: {', '.join(KINDS)}; {', '.join(STATUSES)})")
    entry: JsonDict = {"kind": kind, "id": identity, "what": what, "status": status, "reason": reason, "times": 1}
    return entry | {"elements": 0, "differing": 0, "max_ulps": None, "worst": []} | figures


def compared(kind: str, identity: str, what: str, elements: int, differing: Iterable[Element]) -> JsonDict:
    """The entry of a comparison of ``elements`` elements. Those without ULPs come first, then the farthest apart."""
    found = list(differing)
    known = [element.ulps for element in found if element.ulps is not None]
    found.sort(key=lambda element: (element.ulps is not None, -(element.ulps or 0)))
    return row(
        kind,
        identity,
        what,
        DIFFERENT if found else EQUAL,
        elements=elements,
        differing=len(found),
        max_ulps=max(known, default=None),
        worst=[element.as_json() for element in found[:SHOWN]],
    )


def counted(entries: Iterable[JsonDict]) -> JsonDict:
    """How many comparisons of each kind have each status."""
    counts = {kind: dict.fromkeys(STATUSES, 0) for kind in KINDS}
    for entry in entries:
        counts[entry["kind"]][entry["status"]] += entry["times"]
    return counts
