"""Which of the behaviours that the hardware allows a launch shows: completion of memory operations, caches."""

from __future__ import annotations

from dataclasses import dataclass

#: Completion policies. ``earliest``: an operation is done when it is issued. ``latest``: at the last legal moment.
COMPLETIONS = ("earliest", "latest")
#: Memory models. ``flat``: no caches. ``weak``: L1 of each CU, scalar L1, L2 of each XCD, most-stale policy.
MEMORIES = ("flat", "weak")
#: Do loads into LDS retire in issue order? ``out-of-order`` is a hypothesis from a public report about gfx950.
LDS_DMA_ORDERS = ("in-order", "out-of-order")
#: XCDs of MI300X and MI355X, and the active CUs of each (vendor's data sheets).
XCDS = 8
CUS_PER_XCD = {"gfx942": 38, "gfx950": 32}


@dataclass(frozen=True, slots=True)
class MachineOptions:
    """Options of :func:`validation.emulator.launch`; ``cus_per_xcd`` None means what the architecture has."""

    completion: str = "earliest"
    memory: str = "flat"
    lds_dma: str = "in-order"
    xcds: int = XCDS
    cus_per_xcd: int | None = None

    def __post_init__(self) -> None:
        for name, accepted in (("completion", COMPLETIONS), ("memory", MEMORIES), ("lds_dma", LDS_DMA_ORDERS)):
            if getattr(self, name) not in accepted:
                raise ValueError(f"{name}={getattr(self, name)!r}; there are {', '.join(accepted)}")
        for name, count in (("xcds", self.xcds), ("cus_per_xcd", 1 if self.cus_per_xcd is None else self.cus_per_xcd)):
            if isinstance(count, bool) or not isinstance(count, int):
                raise TypeError(f"{name}={count!r}; it takes a whole number from 1 on")
            if count < 1:
                raise ValueError(f"{name}={count}; it takes a whole number from 1 on")

    def cus(self, arch: str) -> int:
        return CUS_PER_XCD[arch] if self.cus_per_xcd is None else self.cus_per_xcd


DEFAULT = MachineOptions()
