"""The run-time part of register-level initcheck, as steps see it (``machine/instrument.py``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..machine.bind import Step
from ..machine.waves import BindContext, Waves
from ..memory.access import Space
from .effects import Effect
from .registers import RegisterState, Watch
from .registers_flow import Tracking
from .registers_memory import transferred
from .registers_rules import rule_of

_STATE = "registers"
#: Spaces whose undefined bytes a memory instruction may meet, by form.
_SPACES = {"scratch": (Space.SCRATCH, Space.LDS), "flat": (Space.SCRATCH, Space.LDS)}


def attach_registers(w: Waves, tracking: Tracking) -> None:
    """Give a new chunk its shadow registers."""
    w.extra[_STATE] = RegisterState(w, tracking)


def watched_registers(
    step: Step, ctx: BindContext, effect: Effect, run: Callable[[Waves], Any]
) -> Callable[[Waves], Any]:
    """The step ``run`` behind a look at undefined registers; ``step`` is the bare one."""
    watch = Watch.of(step, ctx, effect)
    rule, keys = rule_of(watch), frozenset((*effect.reads, *effect.writes))
    if rule is transferred:
        spaces = _SPACES.get(step.entry.form, (Space.LDS,))

        def watched_memory(w: Waves) -> Any:
            state: RegisterState = w.extra[_STATE]
            if any(space in state.bytes for space in spaces):
                return rule(state, watch, run)
            return run(w) if state.dirty.isdisjoint(keys) else state.step(watch, run, rule)

        return watched_memory

    def watched(w: Waves) -> Any:
        state: RegisterState = w.extra[_STATE]
        return run(w) if state.dirty.isdisjoint(keys) else state.step(watch, run, rule)

    return watched
