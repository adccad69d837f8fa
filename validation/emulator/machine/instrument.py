"""Bound steps that go through :class:`~.in_flight.InFlight`, for launches that model or check completion."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks.waits import Touch, WaitCheck
from ..memory.access import Maintenance
from ..program.program import Program
from .bind import Step
from .in_flight import LGKM, VM, InFlight, Traits
from .options import MachineOptions
from .transfer import MemoryOperation
from .waves import BindContext, Waves


def traits_of(step: Step, dma_in_order: bool) -> Traits:
    """Counters of a memory instruction, by its form."""
    operation: Any = step.run
    form, inst, options = step.entry.form, step.inst, step.entry.options
    into_lds = options.get("kind") == "lds" or "lds" in inst.modifiers
    counters: tuple[str, ...] = (VM,)
    ordered, units = True, 1
    if form == "flat":
        counters, ordered = (VM, LGKM), False
    elif form in ("smem", "clock"):
        counters, ordered, units = (LGKM,), False, 2 if options.get("dwords", 2) > 1 else 1
    elif form.startswith("ds"):
        counters = (LGKM,)
    elif form == "cache" and options["what"] is not Maintenance.WRITE_BACK:
        counters = ()
    elif into_lds:
        ordered = dma_in_order
    return Traits(operation, inst, counters, ordered, units, into_lds)


@dataclass(frozen=True)
class Instrument:
    """Wraps bound steps so that they go through ``Waves.in_flight``. Equal instruments share bound programs."""

    dma_in_order: bool
    waits: bool

    def __call__(self, step: Step, ctx: BindContext) -> Step:
        run, inst = self._run(step, ctx), step.inst
        return step if run is None else Step(run, step.control, inst, step.entry, step.target)

    def _run(self, step: Step, ctx: BindContext) -> Callable[[Waves], Any] | None:
        inner: Any = step.run
        inst = step.inst
        if step.control == "wait":
            counters = inner(None)
            return lambda w: w.in_flight.wait(inst, counters)
        if step.control == "end":
            return lambda w: w.in_flight.end()
        if step.control == "barrier":
            return lambda w: w.in_flight.barrier()
        run: Callable[[Waves], Any] | None = None
        traits = None
        if isinstance(inner, MemoryOperation):
            traits = counted = traits_of(step, self.dma_in_order)
            run = lambda w: w.in_flight.issue(counted)  # noqa: E731
        touch = Touch.of(step, ctx, traits)
        return _watched(run or inner, touch) if self.waits and touch.keys else run


def _watched(run: Callable[[Waves], Any], touch: Touch) -> Callable[[Waves], Any]:
    """The step behind a look at the registers that it touches."""

    def watched(w: Waves) -> Any:
        if not w.in_flight.busy.keys().isdisjoint(touch.keys):
            w.in_flight.check.touched(w.in_flight, touch)
        return run(w)

    return watched


@functools.cache
def _instrument(dma_in_order: bool, waits: bool) -> Instrument:
    return Instrument(dma_in_order, waits)


def instrument(options: MachineOptions, checks: Sequence[str]) -> Instrument | None:
    """What wraps the steps of a launch; None when every operation is simply done at its issue."""
    if options.completion == "earliest" and "waits" not in checks:
        return None
    return _instrument(options.lds_dma == "in-order", "waits" in checks)


def attach(w: Waves, options: MachineOptions, checks: Sequence[str], program: Program) -> None:
    """Give a new chunk its :class:`InFlight`, where the launch needs one."""
    if instrument(options, checks) is not None:
        check = WaitCheck(w, program) if "waits" in checks else None
        w.in_flight = InFlight(w, options.completion == "latest", check)
