"""Traffic of a launch: requested bytes, 128-byte lines (unique, and summed over workgroups), LDS work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..memory.access import Access, Kind

if TYPE_CHECKING:
    from ..machine.waves import Waves
    from ..memory.hierarchy import MemoryPort


class TrafficCounter:
    """Counts exactly; see ``counts`` for the names."""

    def __init__(self) -> None:
        self.requested: dict[str, int] = {}

    def observe(self, port: MemoryPort, w: Waves, access: Access) -> None:
        kind = "write" if access.kind is Kind.STORE else "read"
        key = f"{access.space.value}_bytes_{kind}"
        self.requested[key] = self.requested.get(key, 0) + int(access.mask.sum()) * access.nbytes

    def counts(self) -> dict[str, Any]:
        return dict(self.requested)


