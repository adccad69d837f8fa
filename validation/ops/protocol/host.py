"""The host's side of a scenario: streams, a poisoning allocator, calls of K1 and what each call is due to give.

Modules of the op are looked up when they are used, because a broken variant replaces them.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

import oracle
from oracle.exact import K1Case
from oracle.guards import poison
from validation.emulator.allocator import CachingAllocator
from validation.emulator.streams import Stream
from validation.kit import comparison_of, simple_check
from validation.protocol import Trial

CPU = torch.device("cpu")
EPS = 3.0


@dataclass(frozen=True)
class Shape:
    """Sizes of a small K1: two column tiles with the defaults, and one wave a workgroup."""

    hc: int = 4
    hs: int = 512
    n_pad: int = 8
    live: int = 8


@functools.lru_cache(maxsize=64)
def exact_case(shape: Shape, tokens: int, seed: int, fold: bool = True) -> K1Case:
    """Inputs whose outputs are known bit for bit."""
    return oracle.exact.k1_case(tokens, shape.hc, shape.hs, shape.live, shape.n_pad, fold_w=fold, eps=EPS, seed=seed)


def op(name: str) -> Any:
    """A module of the op, the real or the broken one."""
    return importlib.import_module(f"hcgr.{name}")


@dataclass(eq=False)
class Call:
    """A call of K1: what it wrote, or will have written once its stream has got there, and what is due."""

    name: str
    case: K1Case
    r2: torch.Tensor
    packed: torch.Tensor
    rrms: torch.Tensor

    def outputs(self) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """What was written and what is due, by name."""
        due = self.case.combine.r2.reshape(self.r2.shape), self.case.packed, self.case.rrms
        return dict(
            zip(("r2", "packed", "rrms"), zip((self.r2, self.packed, self.rrms), due, strict=True), strict=True)
        )


@dataclass(eq=False)
class Host:
    """One session's host. ``default`` is the default stream; ``cache`` the op's counter sets, fresh."""

    trial: Trial
    session: Any
    cache: Any
    allocator: CachingAllocator
    default: Stream
    expected: list[Call] = field(default_factory=list)
    calls: int = 0

    def k1(
        self, stream: Stream, shape: Shape = Shape(), tokens: int = 1, group: int | None = None, name: str = ""
    ) -> Call:
        """Call K1 on ``stream``; judged at the next :meth:`settle`. ``group``: tokens of a workgroup.

        Without ``group`` the call goes through the op's contract and its choice of a plan.
        """
        self.calls += 1
        case = exact_case(shape, tokens, self.calls)
        with self.current(stream):
            call = self.issue(shape, case, group, name or f"call {self.calls}")
        if not stream.capturing:
            self.expect(call)
        return call

    def issue(self, shape: Shape, case: K1Case, group: int | None, name: str) -> Call:
        """Call K1 on whichever stream the op takes for the current one."""
        made = self._through_op(shape, case) if group is None else self._planned(shape, case, group)
        return Call(name, case, *made)

    @staticmethod
    def _through_op(shape: Shape, case: K1Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        c = case.combine
        options = (shape.live - shape.hc, shape.hc, case.eps, True, None, 0, None, None, True)
        made: tuple[torch.Tensor, torch.Tensor, torch.Tensor] = op("direct").k1_op(
            c.residual, c.block_output, c.injection, case.norm_weight, case.weight, *options
        )
        return made

    def _planned(self, shape: Shape, case: K1Case, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        plan = op("plan.skinny").SkinnyPlan(shape.hc, shape.hs, shape.n_pad, shape.live, group, 4)
        return run_plan(case, plan, self.arch)

    @property
    def arch(self) -> str:
        """LLVM target."""
        return str(self.session.arch)

    @contextmanager
    def current(self, stream: Stream) -> Iterator[None]:
        """``stream`` is current, and tensors of this thread come from the allocator, in its order."""
        with op("dispatch").on_stream(stream), self.allocating():
            yield

    def allocating(self) -> AbstractContextManager[None]:
        """Tensors of this thread come from the allocator, in the order of the op's current stream."""
        dispatch = op("dispatch")
        return self.allocator.intercept(lambda: dispatch.current_stream(CPU) or self.default)

    def expect(self, *calls: Call) -> None:
        """These outputs will be written (again), by a replay."""
        self.expected += calls

    def settle(self) -> None:
        """Run everything; then every expected output must be what is due, and is poisoned."""
        self.session.synchronize()
        for call in self.expected:
            for name, (got, due) in call.outputs().items():
                result = oracle.compare_exact(name, got, due)
                record = comparison_of(name, "value", result)
                self.trial.checks.append(record | {"message": f"{call.name}: {record['message']}"})
                poison(got)
        self.expected.clear()

    def promise(self, what: str, problems: list[str]) -> None:
        """Something that the host code promises; ``problems`` say how it broke it."""
        self.trial.checks.append(simple_check(what, "contract", problems, "kept"))


def run_plan(case: K1Case, plan: Any, arch: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(r2, packed, rrms) of K1 with ``plan``, beneath the contract and the choice of plans."""
    c = case.combine
    r2 = c.residual.new_empty(c.residual.shape)
    packed = c.residual.new_empty(case.packed.shape)
    rrms = c.residual.new_empty(case.rrms.shape, dtype=torch.float32)
    k1 = op("k1")
    k1.run(
        k1.K1Call(
            c.residual, c.block_output, c.injection, case.norm_weight, case.weight, r2, rrms, packed, case.eps, arch
        ),
        plan,
    )
    return r2, packed, rrms


@contextmanager
def hosting(trial: Trial, max_sets: int = 64, max_pinned: int = 64, **options: Any) -> Iterator[Host]:
    """A session whose launches are queued, with fresh counter sets; settles at the end of the block."""
    with trial.session(concurrent=True, **options) as session:
        default = Stream(name="default stream")
        default.cuda_stream = 0
        cache = op("counters").CounterCache(max_sets, max_pinned)
        host = Host(trial, session, cache, CachingAllocator(session.space), default)
        with mock.patch.object(op("k1"), "counters", cache):
            yield host
            host.settle()
