"""Fake scenarios and broken variants for the protocol stage: every way in which one can end, in microseconds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from validation.cases import comparison
from validation.devices import receipt
from validation.mutation.edit import Edit
from validation.protocol import AsmEdit, Scenario, Setting, Tooth, Trial

OP = "tests.validation.protocol_fakes_op"
FILE = "tests/validation/protocol_fakes_op.py"
ME = "tests.validation.protocol_fakes"
ASM = "store v1\nwait\nwait ; the one before the arrival\narrive v2\nwait\n"


class Session:
    """What a scenario's session shows; it is its own emulator."""

    def __init__(self) -> None:
        self.launches: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []

    @property
    def emulated(self) -> Session:
        return self


class Bench:
    """A device that can be told how to behave, and launches a kernel made of the op's ``INSTRUCTIONS``."""

    watching: ClassVar[list[tuple[dict[str, Any], Callable[[str, str], str]]]] = []

    @contextmanager
    def session(self, **options: Any) -> Iterator[Session]:
        self.options = options
        self.current = Session()
        yield self.current

    @contextmanager
    def watch_code(
        self, edit: Callable[[str, str], str] = lambda text, kernel: text, run: bool = True
    ) -> Iterator[dict[str, Any]]:
        code: dict[str, Any] = {}
        self.watching.append((code, edit))
        try:
            yield code
        finally:
            self.watching.pop()

    def launch(self) -> None:
        for code, edit in self.watching:
            code["fake_kernel"] = edit(importlib.import_module(OP).INSTRUCTIONS + "\n" + ASM, "fake_kernel")
        self.current.launches.append(receipt("fake_kernel", "gfx942", (2, 1, 1), (64, 1, 1), 2, 100))

    def blame(self, error: BaseException) -> Any:
        return None

    def close(self) -> None:
        pass


def good(trial: Trial) -> None:
    """One launch, whose result hangs on the op's ``ROUNDS``; a guard that is off is the contract's business."""
    op = importlib.import_module(OP)
    bench: Any = trial.bench
    with trial.session():
        bench.launch()
    right = op.ROUNDS == 4 or trial.setting.completion == "earliest"
    trial.checks.append(comparison("out", "value", right, "as due" if right else "7.0, want 8.0", elements=8))
    trial.checks.append(comparison("guard", "contract", op.GUARDED, "kept" if op.GUARDED else "nobody looked"))


def idle(trial: Trial) -> None:
    """Compares and launches nothing."""
    trial.checks.append(comparison("out", "value", True, "as due"))


def uncompared(trial: Trial) -> None:
    bench: Any = trial.bench
    with trial.session():
        bench.launch()


def broken_scenario(trial: Trial) -> None:
    raise RuntimeError("the scenario itself is broken")


def refused(trial: Trial) -> None:
    importlib.import_module(OP).refuse()


def wrong(trial: Trial) -> None:
    bench: Any = trial.bench
    with trial.session():
        bench.launch()
    right = trial.setting.schedule != "reversed"
    trial.checks.append(comparison("out", "value", right, "as due" if right else "7.0, want 8.0"))


def settings(level: str, seed: int) -> list[Setting]:
    return [Setting("in-order"), Setting("reversed", completion="latest"), Setting(f"random:{seed}")]


def scenario(run: str, *teeth: Tooth) -> Scenario:
    return Scenario(run, f"scenario {run}", f"{ME}:{run}", settings, teeth)


def tooth(name: str, check: str, find: str, replace: str, **options: Any) -> Tooth:
    return Tooth(name, f"variant {name}", check, (Edit(FILE, find, replace),), **options)


TEETH = {
    "caught": tooth("caught", "value", "ROUNDS = 4", "ROUNDS = 2"),
    "survives": tooth("survives", "racecheck", 'COMMENT = "changes', 'COMMENT = "really changes'),
    "by_another": tooth("by_another", "racecheck", "GUARDED = True", "GUARDED = False"),
    "does_not_apply": tooth("does_not_apply", "value", "ROUNDS = 5", "ROUNDS = 2"),
    "applies_twice": tooth("applies_twice", "value", "e", "f"),
    "slips": tooth("slips", "contract", 'raise ValueError("a legal', 'raise ValueErrer("a legal'),
    "same_code": tooth("same_code", "value", "ROUNDS = 4", "ROUNDS = 2", kernel=True),
    "other_code": tooth(
        "other_code",
        "contract",
        'GUARDED = True\nINSTRUCTIONS = "load',
        'GUARDED = False\nINSTRUCTIONS = "',
        kernel=True,
    ),
    "crash": tooth("crash", "value", "ROUNDS = 4", "del ROUNDS_THAT_IS_NOT_THERE"),
    "asm": Tooth("asm", "no wait", "value", asm=(AsmEdit("fake_", "wait", "wait", "arrive"),), kernel=True),
    "asm_ambiguous": Tooth("asm_ambiguous", "no wait", "value", asm=(AsmEdit("fake_", "wait", "store v1", "arrive"),)),
    "asm_elsewhere": Tooth("asm_elsewhere", "no wait", "value", asm=(AsmEdit("other_", "wait", "wait", "arrive"),)),
}  # fmt: skip
