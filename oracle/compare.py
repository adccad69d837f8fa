"""Compare what a kernel wrote with a stage's bound, and report how close it came.

An element passes when ``|got - want| <= delta + half_ulp(|want| + delta)``.  The report gives the ratio of
the two sides: 1 is the edge of what a correct evaluation can produce.  NaN must be where NaN is due and Inf
where Inf is due, with its sign; an overflow that the bound leaves open may go either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from oracle.bounds import Bounded
from oracle.rounding import BF16_MAX, half_ulp, round_to

F64 = torch.float64
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
SAMPLES = 200_000
"""Percentiles come from at most about this many evenly spaced elements; every other figure from all."""
EXAMPLES = 8


@dataclass(frozen=True)
class Deviation:
    """One element: its index in the full tensor, what was there, what was due and how far off it may be."""

    index: tuple[int, ...]
    got: float
    want: float
    bound: float
    ratio: float

    def __str__(self) -> str:
        return (
            f"[{', '.join(map(str, self.index))}]: got {self.got!r}, want {self.want!r} "
            f"+- {self.bound:.3g} (error/bound {self.ratio:.3g})"
        )


@dataclass(frozen=True)
class Comparison:
    """Result of one check.

    max_ratio, percentiles  error / bound over finite elements (percentiles: see `SAMPLES`); Inf if a NaN or
                            Inf is misplaced
    bias                    mean of (got - want) / bound: a systematic offset
    shrink                  mean of the same times the sign of want: a truncating store shows as negative
    worst                   the element with the largest ratio; examples: the first violations in row order
    nonfinite_mismatches    elements where NaN or Inf (with sign) is not what is due
    undetermined            elements that float32 does not determine, not compared
    """

    name: str
    elements: int
    violations: int
    nonfinite_mismatches: int
    undetermined: int
    max_ratio: float
    percentiles: dict[float, float]
    bias: float
    shrink: float
    worst: Deviation | None
    examples: tuple[Deviation, ...] = ()

    @property
    def passed(self) -> bool:
        """No violation, and something was compared: an empty comparison is not a pass."""
        return self.violations == 0 and self.elements > self.undetermined

    def to_dict(self) -> dict[str, object]:
        """Plain JSON types; non-finite floats as strings, for JSON has none."""

        def plain(value: object) -> object:
            if isinstance(value, float):
                return value if math.isfinite(value) else str(value)
            if isinstance(value, Deviation):
                return {key: plain(item) for key, item in vars(value).items()}
            if isinstance(value, dict):
                return {str(key): plain(item) for key, item in value.items()}
            if isinstance(value, tuple):
                return [plain(item) for item in value]
            return value

        return {"passed": self.passed, **{key: plain(item) for key, item in vars(self).items()}}

    def __str__(self) -> str:
        head = (
            f"{self.name}: {'pass' if self.passed else 'FAIL'}, {self.violations} of {self.elements} out of "
            f"bound, {self.nonfinite_mismatches} NaN/Inf misplaced, max error/bound {self.max_ratio:.3g}, "
            f"bias {self.bias:+.2g}, shrink {self.shrink:+.2g}"
        )
        if self.undetermined:
            head += f", {self.undetermined} not determined by float32"
        return f"{head}; worst at {self.worst}" if self.worst else head


@dataclass(frozen=True)
class Comparisons:
    """The comparisons of several stages, by stage name, in the order in which the op runs them."""

    stages: dict[str, Comparison]

    @property
    def passed(self) -> bool:
        """Every stage passed, and there is at least one."""
        return bool(self.stages) and all(stage.passed for stage in self.stages.values())

    @property
    def first_failure(self) -> Comparison | None:
        """The earliest stage that failed: later ones were judged on its output."""
        return next((stage for stage in self.stages.values() if not stage.passed), None)

    def __getitem__(self, stage: str) -> Comparison:
        return self.stages[stage]

    def __str__(self) -> str:
        return "\n".join(map(str, self.stages.values()))


def unravel(position: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Index of the element at ``position`` in row-major order (torch's own function imports for most of a second)."""
    index = []
    for size in reversed(shape):
        position, last = divmod(position, size)
        index.append(last)
    return tuple(reversed(index))


def _percentiles(sample: Tensor) -> list[float]:
    """:data:`PERCENTILES` of a sample, 0 of an empty one: each the next element below, for interpolating beside an Inf
    would give NaN. Placing four elements takes a fraction of the sort behind ``torch.quantile``."""
    count = sample.numel()
    if not count:
        return [0.0] * len(PERCENTILES)
    places = [int(p * (count - 1) / 100) for p in PERCENTILES]
    return [float(value) for value in np.partition(sample.cpu().numpy(), places)[places]]


@dataclass
class Tally:
    """Accumulates a `Comparison` by blocks of rows, so that no full-size float64 tensor exists."""

    name: str
    total: int
    elements: int = 0
    violations: int = 0
    nonfinite_mismatches: int = 0
    undetermined: int = 0
    compared: int = 0
    sum_signed: float = 0.0
    sum_shrink: float = 0.0
    worst: Deviation | None = None
    examples: list[Deviation] = field(default_factory=list)
    samples: list[Tensor] = field(default_factory=list)

    def add(self, got: Tensor, bound: Bounded, row_ids: Sequence[int]) -> None:
        """Count one block: got [m,...] in its storage format, its bound, its row numbers."""
        if got.dtype != bound.store:
            raise TypeError(f"{self.name}: output must be {bound.store} (got {got.dtype})")
        if got.shape != bound.want.shape:
            raise ValueError(f"{self.name}: output must be {tuple(bound.want.shape)} a block (got {tuple(got.shape)})")
        if got.numel() == 0:
            return
        value, want, delta = got.to(F64), bound.want, bound.delta
        reach = want.abs().add_(delta)
        error = value - want
        limit = half_ulp(reach, bound.store).add_(delta)
        signed = error / limit
        ratio = signed.abs()
        top = float(ratio.amax())
        # NaN and Inf propagate into the maximum; so does 0/0 where a float32 output is due exactly.
        if not (math.isfinite(top) and float(reach.amax()) <= BF16_MAX):
            signed, ratio = self._careful(value, bound, error, signed)
            top = float(ratio.amax())
        else:
            self.compared += got.numel()
        self.elements += got.numel()
        self.sum_signed += float(signed.sum())
        self.sum_shrink += float((signed * want.sign()).nansum())
        self.samples.append(ratio.flatten()[:: max(1, self.total // SAMPLES) | 1].to(torch.float32))

        def deviation(position: int) -> Deviation:
            at = unravel(position, value.shape)
            first, *rest = at
            return Deviation(
                (int(row_ids[first]), *rest),
                float(value[at]),
                float(want[at]),
                float(limit[at]),
                float(ratio[at]),
            )

        if self.worst is None or top > self.worst.ratio:
            self.worst = deviation(int(ratio.argmax()))
        if top > 1.0:
            found = (ratio.flatten() > 1.0).nonzero().flatten()
            self.violations += found.numel()
            self.examples.extend(deviation(int(p)) for p in found[: EXAMPLES - len(self.examples)])

    def _careful(self, value: Tensor, bound: Bounded, error: Tensor, signed: Tensor) -> tuple[Tensor, Tensor]:
        """Blocks with NaN, Inf, overflow or exact zeros: judge by the interval of acceptable values."""
        open_ended = torch.isinf(bound.delta)
        low = round_to(bound.want - bound.delta, bound.store).to(F64)
        high = round_to(bound.want + bound.delta, bound.store).to(F64)
        due = ((value >= low) & (value <= high)) | (value.isnan() & bound.want.isnan()) | open_ended
        plain = value.isfinite() & low.isfinite() & high.isfinite()
        misplaced = ~due & ~plain
        self.nonfinite_mismatches += int(misplaced.sum())
        self.undetermined += int(open_ended.sum())
        self.compared += int(plain.sum())
        signed = torch.where(plain & (error != 0), signed, 0.0)
        ratio = torch.where(misplaced, torch.inf, signed.abs())
        return signed.nan_to_num(posinf=0.0, neginf=0.0), ratio

    def result(self) -> Comparison:
        """The comparison of all blocks added."""
        sample = torch.cat(self.samples) if self.samples else torch.zeros(0)
        levels = dict(zip(PERCENTILES, _percentiles(sample), strict=True))
        count = max(1, self.compared)
        return Comparison(
            self.name,
            self.elements,
            self.violations,
            self.nonfinite_mismatches,
            self.undetermined,
            self.worst.ratio if self.worst else 0.0,
            levels,
            self.sum_signed / count,
            self.sum_shrink / count,
            self.worst,
            tuple(self.examples),
        )


def compare(name: str, got: Tensor, bound: Bounded) -> Comparison:
    """Compare one whole output, small enough to hold in float64, with its bound."""
    tally = Tally(name, got.numel())
    tally.add(got, bound, range(got.shape[0]))
    return tally.result()


def compare_exact(name: str, got: Tensor, want: Tensor, *, zero_sign: bool = True) -> Comparison:
    """Bit equality, for inputs on which every order of evaluation is exact (`oracle.exact`).

    Any NaN equals any NaN.  `zero_sign=False` lets -0 equal +0, for sums whose start value is not specified.
    A difference counts as an infinite error/bound.
    """
    if got.dtype != want.dtype or got.shape != want.shape:
        raise ValueError(
            f"{name}: output must be {want.dtype} {tuple(want.shape)} (got {got.dtype} {tuple(got.shape)})"
        )
    value, due = got.to(F64), want.to(F64)
    same = (value == due) | (value.isnan() & due.isnan())
    if zero_sign:
        same &= (value.signbit() == due.signbit()) | due.isnan()
    wrong = (~same).nonzero()
    ordinary = value.isfinite() & due.isfinite()

    def deviation(index: Tensor) -> Deviation:
        at = tuple(int(i) for i in index)
        return Deviation(at, float(value[at]), float(due[at]), 0.0, math.inf)

    examples = tuple(deviation(index) for index in wrong[:EXAMPLES])
    worst = math.inf if examples else 0.0
    return Comparison(
        name,
        got.numel(),
        len(wrong),
        int((~same & ~ordinary).sum()),
        0,
        worst,
        {p: float(worst if len(wrong) > (1 - p / 100) * got.numel() else 0.0) for p in PERCENTILES},
        0.0,
        0.0,
        examples[0] if examples else None,
        examples,
    )


def twin_ratio(got: Tensor, twin: Tensor, exact: Tensor) -> float:
    """RMS error of `got` against the float64 value divided by that of a bf16-faithful float32 twin.

    A trend, not a gate: about 1 for a kernel that rounds where the op says.  Elements that are not finite in
    any of the three are left out.  Inf if only the twin is exact, 1 if both are.
    """
    a, b, c = got.to(F64), twin.to(F64), exact.to(F64)
    both = a.isfinite() & b.isfinite() & c.isfinite()
    mine, other = float((a - c)[both].square().sum()), float((b - c)[both].square().sum())
    if other == 0.0:
        return 1.0 if mine == 0.0 else math.inf
    return math.sqrt(mine / other)
