"""What the runner validates: an *operation under test*.

An operation names its public entry points. Each entry point brings a shape grid, the rows of its error
contract and a *driver*, the code that builds inputs, calls the public function and compares with an oracle.
Drivers are named by reference (``"module:attribute"``) and only ever imported inside a worker process, so the
command line stays free of torch and of the code under test.

Operations register under the entry point group ``hcgr.operations``; ``module:attribute`` works as a name too,
for an operation that is not installed.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from validation.grid import Case, Grid
from validation.near import hint

if TYPE_CHECKING:
    from validation.protocol import Scenario

ENTRY_POINT_GROUP = "hcgr.operations"

#: Known without an installed distribution, so that a plain checkout works.
BUILT_IN = {
    "hcgr": "validation.ops.hcgr:OPERATION",
    "add_rms_norm": "hcgr_examples.add_rms_norm.operation:OPERATION",
}

JsonDict: TypeAlias = dict[str, Any]
Workgroup: TypeAlias = tuple[int, int, int]
#: Coordinates of the workgroups to run, or a function that is given kernel name and grid; ``None`` is all of them.
Workgroups: TypeAlias = Sequence[Workgroup] | Callable[[str, Workgroup], Sequence[Workgroup] | None] | None


def _no_paths(params: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_shapes(params: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    return {}


def _has_rows(params: Mapping[str, Any]) -> bool:
    return bool(params.get("m", 1) > 0)


class UnknownOperationError(LookupError):
    """No operation of that name is registered; the message lists those that are."""


class SkipCase(Exception):
    """Raised by a driver when this device cannot run the case at all; the message is the skip's reason."""


@dataclass(frozen=True)
class ContractRow:
    """One row of the error contract.

    ``error`` is the name of the exception class that the call must raise, or ``None`` for a call that must
    succeed without launching anything (M = 0). ``mentions`` are words the message must hold: the argument, and
    what is accepted.
    """

    name: str
    why: str
    error: str | None
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True)
class EntryPoint:
    """One public function of an operation.

    ``driver`` refers to a class with the methods of :class:`Driver`. ``variant`` maps a case's parameters to
    the name of the group of kernels that serves it; the compile stage has one task for each variant. ``launches``
    tells whether a case launches anything: by default all do but those whose parameter ``m`` is zero. ``paths``
    maps them to the paths that the case was built to take: a case whose receipts lack one of them fails. ``shapes``
    maps them to the shapes that its launches must have seen, by the name of a kernel's argument (see
    :mod:`validation.launched`): a case whose receipts lack one fails too. ``limits`` holds the largest value accepted
    for a resource of :class:`validation.stages.isa.Resources`, by field name. ``invalid`` maps axes to a value that the
    function must refuse; with one, the contract stage also runs the control of the grid
    (:mod:`validation.grid_control`), without which nothing shows that the grid reaches it.
    """

    name: str
    function: str
    grid: Grid
    driver: str
    contract: tuple[ContractRow, ...]
    variant: Callable[[Mapping[str, Any]], str]
    launches: Callable[[Mapping[str, Any]], bool] = _has_rows
    limits: Mapping[str, int] = field(default_factory=dict)
    timeout_s: float = 120.0
    paths: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_paths
    invalid: Mapping[str, Any] = field(default_factory=dict)
    shapes: Callable[[Mapping[str, Any]], Mapping[str, tuple[int, ...]]] = _no_shapes

    def shapes_due(self, params: Mapping[str, Any]) -> dict[str, list[int]]:
        """``shapes`` of a case as a report holds them; none for a case that launches nothing."""
        return {name: list(shape) for name, shape in self.shapes(params).items()} if self.launches(params) else {}


@dataclass(frozen=True)
class CostCase:
    """A call whose traffic and instructions are counted. ``name`` is its identity, ``why`` the reason it is there."""

    name: str
    params: Mapping[str, Any]
    why: str
    timeout_s: float = 120.0


@dataclass(frozen=True)
class CostModel:
    """What the cost stage counts: ``cases`` of an arch, and the :class:`CostDriver` behind ``driver``."""

    cases: Callable[[str], Sequence[CostCase]]
    driver: str

    def case(self, arch: str, name: str) -> CostCase:
        """The case called ``name``; ``LookupError`` if the arch has none."""
        for case in self.cases(arch):
            if case.name == name:
                return case
        raise LookupError(f"{arch} has no cost case {name!r}")


@dataclass(frozen=True)
class Operation:
    """A named set of entry points. ``packages`` are the import packages that hold the code under test.

    ``protocol`` holds what its launches must get right together, under any schedule.
    ``kernel_paths`` tells the path of a kernel from a part of its name. A kernel that no part matches (one that
    several paths share, say) is no evidence for any.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    entry_points: tuple[EntryPoint, ...]
    kernel_paths: Mapping[str, str] = field(default_factory=dict)
    cost: CostModel | None = None
    protocol: tuple[Scenario, ...] = ()

    def paths_of(self, kernels: Sequence[str]) -> list[str]:
        """The paths that launches of ``kernels`` took, each once, in the order of :attr:`kernel_paths`."""
        taken = [path for part, path in self.kernel_paths.items() if any(part in kernel for kernel in kernels)]
        return list(dict.fromkeys(taken))

    def entry_point(self, name: str) -> EntryPoint:
        """The entry point called ``name``; ``LookupError`` names those that exist."""
        for entry in self.entry_points:
            if entry.name == name:
                return entry
        names = [e.name for e in self.entry_points]
        known = f"(it has: {', '.join(names)}){hint(name, names)}"
        raise LookupError(f"operation {self.name!r} has no entry point {name!r} {known}")


class Session(Protocol):
    """What the launch layer saw while a call ran."""

    @property
    def launches(self) -> list[JsonDict]:
        """One receipt a launch."""

    @property
    def findings(self) -> list[JsonDict]:
        """Every finding of every launch."""


class Bench(Protocol):
    """Where a case runs: memory and launches of one device (see :mod:`validation.devices`).

    ``sparse`` says whether a tensor far larger than memory can be declared, and chosen workgroups run. ``whole``
    asks a driver to run every workgroup where it would choose some.
    """

    level: str
    sparse: bool
    whole: bool

    def empty(self, shape: Sequence[int], dtype: Any, name: str) -> Any:
        """An uninitialised contiguous tensor of the device, guarded on both sides, reported under ``name``."""

    def filled(self, tensor: Any) -> None:
        """The host has written every element of ``tensor`` (a view counts for itself only)."""

    def named(self, tensor: Any, name: str) -> None:
        """From now on ``tensor``, if it is this bench's, is reported under ``name``."""

    def session(self, workgroups: Workgroups = None) -> AbstractContextManager[Session]:
        """Observe the launches of a block, of which ``workgroups`` run."""

    def guard_damage(self) -> list[str]:
        """Names of the tensors beside which a guard byte changed."""

    def blame(self, error: BaseException) -> tuple[str, list[JsonDict]] | None:
        """Findings behind an exception that accuses the kernel; ``None`` for any other exception."""

    def close(self) -> None:
        """Release every tensor made by :meth:`empty`."""


class TimedBench(Bench, Protocol):
    """A bench of a device that has a clock: a GPU."""

    def control(self) -> Callable[[], Any]:
        """A call that no code under test reaches, of much the same length each time."""

    def seconds(self, call: Callable[[], Any]) -> float:
        """Seconds that the device took for ``call``, which has run once before."""


class Driver(Protocol):
    """Worker-side half of an entry point."""

    def prepare(self, case: Case, bench: Bench, seed: int) -> Any:
        """Inputs (and caller-owned outputs, poisoned) of ``case``, equal for equal ``seed``."""

    def workgroups(self, inputs: Any) -> Workgroups:
        """The workgroups to run; ``None`` for all."""

    def run(self, inputs: Any) -> Any:
        """Call the public function once and return its outputs."""

    def check(self, inputs: Any, outputs: Any) -> list[JsonDict]:
        """Compare with the oracle: one record a check, made by :func:`validation.cases.comparison`."""

    def build(self, case: Case, arch: str) -> list[str]:
        """Compile the kernels that serve ``case``, launching nothing, and return their assembly texts."""

    def contract(self, row: str, bench: Bench) -> ContractCall:
        """The call of one contract row."""

    def results(self, inputs: Any, outputs: Any) -> Mapping[str, Any]:
        """The rows of each output that ran, by name: what a comparison with a base hashes. A driver may lack it."""


class CostDriver(Protocol):
    """Worker-side half of a cost model."""

    def measure(self, case: CostCase, bench: Bench) -> JsonDict:
        """Count the call: a ``cost`` record of the report (see its schema)."""

    def judge(self, row: JsonDict) -> list[JsonDict]:
        """What the record must satisfy, one :func:`validation.cases.comparison` each."""


@dataclass(frozen=True)
class ContractCall:
    """A call that must be refused (or do nothing), and the tensors whose bytes it may not change.

    ``verify`` looks at the result of a call that must succeed and returns what is wrong with it, or ``None``.
    """

    call: Callable[[], Any]
    untouched: tuple[tuple[str, Any], ...] = ()
    verify: Callable[[Any], str | None] | None = None


def resolve_reference(reference: str) -> Any:
    """The object behind ``"module:attribute"``."""
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)


def registered_operations() -> dict[str, str]:
    """Name to reference, of every operation that can be found, installed ones first."""
    found = dict(BUILT_IN)
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP):
        found[entry.name] = entry.value
    return found


def load_operation(name: str) -> Operation:
    """The operation called ``name``, or the one behind a ``module:attribute`` reference."""
    known = registered_operations()
    reference = name if ":" in name else known.get(name)
    if reference is None:
        accepted = ", ".join(sorted(known))
        raise UnknownOperationError(f"unknown operation {name!r} (known: {accepted}; or give module:attribute)")
    try:
        operation = resolve_reference(reference)
    except (ImportError, AttributeError) as error:
        raise UnknownOperationError(f"operation {name!r} cannot be loaded from {reference!r}: {error}") from error
    if not isinstance(operation, Operation):
        raise UnknownOperationError(f"{reference!r} is a {type(operation).__name__}, not an Operation")
    return operation
