"""Bound steps with something around them, for launches that model or check completion or follow undefined registers:
:class:`~.in_flight.InFlight`, ``checks/waits.py``, ``checks/registers.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..checks.registers_flow import Tracking, tracking
from ..checks.registers_watch import attach_registers, watched_registers
from ..checks.waits import Touch, WaitCheck
from ..memory.access import Maintenance
from ..program.program import Kernel, Program
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
    flushes = options.get("what") is Maintenance.WRITE_BACK and "sc1" in inst.modifiers
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
    return Traits(operation, inst, counters, ordered, units, into_lds, flushes)


@dataclass(frozen=True)
class Instrument:
    """Wraps bound steps. Equal instruments share bound programs.

    flight: operations go through ``Waves.in_flight``. undefined: the registers that initcheck follows, if any.
    """

    flight: bool
    dma_in_order: bool
    waits: bool
    undefined: Tracking | None

    def __call__(self, step: Step, ctx: BindContext) -> Step:
        run = self._run(step, ctx) if self.flight else None
        if self.undefined is not None and step.inst.index in self.undefined.effects:
            run = watched_registers(step, ctx, self.undefined.effects[step.inst.index], run or step.run)
        return step if run is None else Step(run, step.control, step.inst, step.entry, step.target)

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


def instrument(
    options: MachineOptions, checks: Sequence[str], program: Program, kernel: Kernel, agpr_base: int
) -> Instrument | None:
    """What wraps the steps of a launch; None when every operation is simply done at its issue."""
    flight = options.completion != "earliest" or "waits" in checks
    undefined = tracking(program, kernel, agpr_base) if "initcheck" in checks else None
    if undefined is not None and not undefined.effects:
        undefined = None
    if not flight and undefined is None:
        return None
    return Instrument(flight, flight and options.lds_dma == "in-order", "waits" in checks, undefined)


def attach(w: Waves, options: MachineOptions, checks: Sequence[str], program: Program, kernel: Kernel) -> None:
    """Give a new chunk, whose registers are as the kernel's entry finds them, what the wrapped steps use."""
    wrap = instrument(options, checks, program, kernel, w.agpr_base)
    if wrap is None:
        return
    if wrap.flight:
        check = WaitCheck(w, program) if wrap.waits else None
        w.in_flight = InFlight(w, options.completion == "latest", check)
    if wrap.undefined is not None:
        attach_registers(w, wrap.undefined)
