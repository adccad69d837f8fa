"""Counts what a call of ``combine_and_mix`` costs, and judges it by the limits and the committed budget.

A call of more than 128 rows is measured on one block of 128 rows under the very plan of the whole call, and scaled:
tiles of every kernel divide 128, so each further block moves the same lines of each per-row argument and the same
weights again from L2, which are counted once a launch. One case measures two blocks and compares.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import hcgr
from hcgr import arch as arch_table
from hcgr import dispatch
from hcgr.dispatch import Launch
from hcgr.five_stage import five_stage_combine_and_mix
from hcgr.plan import choose
from schemas import load_schema
from validation.cases import comparison
from validation.devices.emulator import capture_asm
from validation.operation import Bench, CostCase, JsonDict
from validation.ops import cost_cases, traffic
from validation.ops.allocations import own_allocations
from validation.ops.axes import PRODUCTION, Shape
from validation.ops.chosen import Recorder
from validation.ops.traffic import Lines, Work
from validation.stages.isa import Resources, kernel_resources

BUDGET = Path(__file__).with_name("budget.json")
#: Figures of a budget row: none may grow.
FIGURES = ("bytes_moved", "mfma", "launches", *traffic.WORK)
BF16 = torch.bfloat16
_PATHS = {
    "k1_skinny": "skinny",
    "k1_fused": "fused",
    "k1_split_k": "split_k",
    "k1_resident": "resident",
    "k1_decoupled": "decoupled",
}


@lru_cache(maxsize=1)
def budget() -> dict[tuple[str, str], JsonDict]:
    """Rows of the committed table by (arch, case); empty when there is no table yet.

    Raises:
        ValueError: if the table breaks its schema.
    """
    import jsonschema

    if not BUDGET.exists():
        return {}
    table = json.loads(BUDGET.read_text(encoding="utf-8"))
    jsonschema.validate(table, load_schema("budget"))
    return {(row["arch"], row["case"]): row for row in table["rows"]}


@dataclass(frozen=True)
class Kernel:
    """One launch as hcgr issued it: the kernel's module and its plan."""

    name: str
    plan: Any

    @classmethod
    def of(cls, launch: Launch) -> Kernel:
        """The kernel of a launch, without the launch's tensors."""
        return cls(launch.kernel.rpartition(".")[2], launch.plan)


@dataclass(frozen=True)
class Measured:
    """One emulated call: what each launch moved, multiplied and worked, and the weights that it read again."""

    names: list[str]
    lines: list[Lines]
    rereads: dict[str, int]
    mfma: list[int]
    work: list[Work]


#: What a worker has measured, by everything that determines it: several row counts may share plans.
_MEASURED: dict[tuple[Any, ...], Measured] = {}


def _tensors(bench: Bench, m: int, shape: Shape) -> dict[str, torch.Tensor]:
    """Arguments of a call; zeros, for nothing in these kernels depends on the data."""
    sizes = {
        "residual": (m, shape.width),
        "block_output": (m, shape.hs),
        "injection": (m, shape.n_pad),
        "norm_weight": (shape.hs,),
        "w_down": (shape.r, shape.width),
        "w_up": (shape.width, shape.r),
        "w_inject": (shape.hc, shape.width),
        "w_down_merged": (shape.n_pad, shape.width),
    }
    tensors = {name: bench.empty(size, BF16, name) for name, size in sizes.items()}
    tensors["injection"] = tensors["injection"][:, shape.r : shape.r + shape.hc]
    return tensors


@contextmanager
def _planned_for(m: int, request: choose.Request) -> Iterator[None]:
    """Plans are made for ``m`` rows, whatever the call holds, and K1's as ``request`` asks."""
    first, second = choose.k1, choose.k2
    with (
        mock.patch.object(choose, "k1", lambda tokens, *rest: first(m, *rest, request=request)),
        mock.patch.object(choose, "k2", lambda tokens, *rest, **options: second(m, *rest, **options)),
    ):
        yield


def _call(tensors: dict[str, torch.Tensor], shape: Shape, fold: bool) -> Any:
    arguments: dict[str, Any] = {**tensors, "hc_count": shape.hc, "fold_w": fold}
    return hcgr.flydsl_gr_two_stage_combine_and_mix(**arguments)


def _canonical(launch: Launch, r2: torch.Tensor) -> dict[str, str]:
    """What to call the memory behind each argument of a launch: whatever R2 is passed as, it is R2."""
    return {name: "r2" if tensor.data_ptr() == r2.data_ptr() else name for name, tensor in launch.tensors.items()}


def _counted(bench: Any, rows: int, call: Callable[[], Any]) -> tuple[Any, list[Any], list[Launch]]:
    """What ``call`` returned, what each of its launches counted, and the launches as hcgr issued them."""
    recorder = Recorder(bench, None)
    with (
        own_allocations(bench, "hcgr", rows, ()),
        dispatch.observe(recorder),
        bench.session(checks=("counts",)) as session,
    ):
        result = call()
    _require_counted(session.results, recorder.launches)
    return result, session.results, recorder.launches


def _mfma(result: Any) -> int:
    return sum(n for name, n in result.mnemonics.items() if name.startswith("v_mfma"))


def _measure(bench: Any, m: int, rows: int, shape: Shape, fold: bool, request: choose.Request) -> Measured:
    """Run the plan of ``m`` rows on ``rows`` of them."""
    tensors = _tensors(bench, rows, shape)
    with _planned_for(m, request):
        (r2, _, _), results, launches = _counted(bench, rows, lambda: _call(tensors, shape, fold))
    pairs = [(result, _canonical(launch, r2)) for result, launch in zip(results, launches, strict=True)]
    return Measured(
        [result.kernel for result in results],
        [traffic.launch_lines(result.counts, own) for result, own in pairs],
        _rereads(pairs),
        [_mfma(result) for result in results],
        [traffic.launch_work(result.counts, result.mnemonics) for result in results],
    )


def _measure_five_stage(bench: Any, rows: int, shape: Shape) -> Measured:
    """Run the five-stage baseline on ``rows`` rows; its plans do not depend on the row count."""
    tensors = _tensors(bench, rows, shape)
    arguments: dict[str, Any] = {**tensors, "hc_count": shape.hc, "eps": 1e-6}
    got, results, launches = _counted(bench, rows, lambda: five_stage_combine_and_mix(**arguments))
    known = {tensor.data_ptr(): name for name, tensor in {**tensors, "weight": tensors["w_down_merged"], **got}.items()}
    lines = [
        traffic.launch_lines(result.counts, {n: known[t.data_ptr()] for n, t in launch.tensors.items()})
        for result, launch in zip(results, launches, strict=True)
    ]
    return Measured([result.kernel for result in results], lines, {}, [_mfma(result) for result in results], [])


def _require_counted(results: list[Any], launches: list[Launch]) -> None:
    """Each launch that hcgr issued was run and counted, in its order."""
    if len(results) != len(launches) or not launches:
        raise RuntimeError(f"{len(launches)} launches were issued, {len(results)} were run")


def _missing(lines: Lines) -> list[str]:
    """Arguments that every call moves and nobody counted."""
    return [name for name in ("residual", "block_output", "r2", "weight", "w_up", "x") if name not in lines]


def _rereads(pairs: list[tuple[Any, dict[str, str]]]) -> dict[str, int]:
    """Lines of each weight that were read again, summed over launches."""
    extra: dict[str, int] = {}
    for result, names in pairs:
        for argument, numbers in result.counts["arguments"].items():
            name = names.get(argument)
            if name in ("weight", "w_up"):
                extra[name] = extra.get(name, 0) + traffic.lines_again(numbers)
    return extra


def _matrix(kernels: Sequence[Kernel], m: int, shape: Shape, mfma_k: int) -> tuple[int, dict[str, float]]:
    """Matrix instructions due, and the paddings by stage."""
    due = 0
    padding: dict[str, float] = {}
    for launched in kernels:
        kernel, plan = launched.name, launched.plan
        if kernel == "k2_up_gate_mix":
            stage, work = "k2", traffic.k2_matrix(m, plan.block_rows, shape, mfma_k)
        elif kernel in ("k1_fused", "k1_split_k", "k1_resident", "k1_decoupled"):
            tile = getattr(plan, "tile", plan)
            stage, work = "k1", traffic.k1_matrix(m, tile.rows, shape, shape.r + shape.hc, mfma_k)
        else:
            continue
        due += work.due
        padding |= {f"{stage} {name}": round(share, 6) for name, share in work.padding.items()}
    return due, padding


def _five_stage(bench: Any, m: int, shape: Shape, rates: tuple[float, float], mfma_k: int) -> JsonDict:
    """The baseline's cost, counted like the call's own."""
    rows = min(m, cost_cases.BLOCK)
    key = (bench.arch, "five-stage", rows, shape)
    if key not in _MEASURED:
        _MEASURED[key] = _measure_five_stage(bench, rows, shape)
    found = _MEASURED[key]
    factor = m // rows
    per_launch = [traffic.scale_lines(lines, factor) for lines in found.lines]
    moved = [traffic.moved_bytes(lines) for lines in per_launch]
    mfma = [count * factor for count in found.mfma]
    flops = [traffic.matrix_flops(count, mfma_k) for count in mfma]
    return {
        "kernels": found.names,
        "bytes_moved": sum(moved),
        "ratio": sum(moved) / traffic.compulsory_bytes(m, shape),
        "mfma": sum(mfma),
        "projection": traffic.projection(list(zip(moved, flops, strict=True)), *rates),
    }


def _compiled(
    bench: Any, m: int, shape: Shape, fold: bool, request: choose.Request
) -> tuple[tuple[Kernel, ...], list[Resources]]:
    """The kernels of a call and what each takes; the call is compiled and not run."""
    recorder = Recorder(bench, None)
    rows = min(m, cost_cases.BLOCK)
    with (
        _planned_for(m, request),
        own_allocations(bench, "hcgr", rows, ()),
        dispatch.observe(recorder),
        capture_asm() as texts,
    ):
        _call(_tensors(bench, rows, shape), shape, fold)
    return tuple(map(Kernel.of, recorder.launches)), [kernel for text in texts for kernel in kernel_resources(text)]


def _measured(
    bench: Any, kernels: tuple[Kernel, ...], m: int, rows: int, shape: Shape, fold: bool, request: choose.Request
) -> Measured:
    """As :func:`_measure`, each combination of plans once a process."""
    key = (bench.arch, kernels, rows, shape, fold)
    if key not in _MEASURED:
        _MEASURED[key] = _measure(bench, m, rows, shape, fold, request)
    return _MEASURED[key]


class CostDriver:
    """See :class:`validation.operation.CostDriver`."""

    def measure(self, case: CostCase, bench: Any) -> JsonDict:
        """The cost record of one call; see the report's schema."""
        p, arch = case.params, arch_table.get(bench.arch)
        m, shape, fold, request = p["m"], p["shape"], p["fold"], choose.Request(p["split_k"])
        kernels, resources = _compiled(bench, m, shape, fold, request)
        runs = [_measured(bench, kernels, m, rows, shape, fold, request) for rows in p["blocks"]]
        first, factor = runs[0], m // p["blocks"][0]
        per_launch = [traffic.scale_lines(lines, factor) for lines in first.lines]
        lines = traffic.add_lines(per_launch)
        if _missing(lines):
            raise RuntimeError(f"no line of {', '.join(_missing(lines))} was counted: the figures would be too low")
        due, padding = _matrix(kernels, m, shape, arch.mfma_k)
        mfma = [count * factor for count in first.mfma]
        part = arch.parts[0]
        flops = arch.peak_bf16_flops(part)
        if flops is None or part.hbm_bytes_per_s is None:
            raise LookupError(f"no public rates of {part.name}, the full part of {arch.name}")
        rates = (part.hbm_bytes_per_s, flops)
        stages = [
            (traffic.moved_bytes(own), traffic.matrix_flops(count, arch.mfma_k))
            for own, count in zip(per_launch, mfma, strict=True)
        ]
        moved, least = traffic.moved_bytes(lines), traffic.compulsory_bytes(m, shape)
        committed = budget().get((arch.name, case.name))
        is_published = fold and shape == PRODUCTION and part.name == "MI355X" and not request.explicit
        published = cost_cases.PUBLISHED_US.get(m) if is_published else None
        paths = [_PATHS[kernel.name] for kernel in kernels if kernel.name in _PATHS]
        return {
            "case": case.name,
            "arch": arch.name,
            "path": "+".join([*paths, "k2"]),
            "m": m,
            "shape": list(shape),
            "fold": fold,
            "method": "whole call measured"
            if factor == 1
            else f"{p['blocks'][0]} rows measured under the plan of {m}, scaled by rows",
            "rows_measured": list(p["blocks"]),
            "kernels": first.names,
            "lines": lines,
            "bytes_moved": moved,
            "bytes_compulsory": least,
            "ratio": moved / least,
            "limit": None if request.explicit else cost_cases.limit(m),
            "budget": committed and {k: committed[k] for k in ("path", *FIGURES)},
            "weight_lines_reread": sum(first.rereads.values()) if factor == 1 else None,
            "blocks_agree": _agree(runs, p["blocks"]),
            "mfma": sum(mfma),
            "mfma_due": due,
            "mfma_padding": padding,
            "work": traffic.add_work(first.work, factor),
            "vgprs": max(kernel.vgprs for kernel in resources),
            "lds_bytes": max(kernel.lds_bytes for kernel in resources),
            "lds_limit": arch.lds_bytes,
            "spills": sum(k.vgpr_spills + k.sgpr_spills for k in resources),
            "scratch_bytes": sum(k.scratch_bytes for k in resources),
            "part": part.name,
            "projection": traffic.projection(stages, *rates),
            "five_stage": _five_stage(bench, m, shape, rates, arch.mfma_k),
            "published_us": published and {"five_stage": published[0], "two_stage": published[1]},
        }

    def judge(self, row: JsonDict) -> list[JsonDict]:
        """Traffic within its limit and budget, matrix instructions exact, nothing spilled, LDS within the arch."""
        checks = [
            _judged(
                "mfma", row["mfma"] == row["mfma_due"], f"{row['mfma']} matrix instructions, {row['mfma_due']} due"
            ),
            _judged(
                "registers",
                not row["spills"] and not row["scratch_bytes"],
                f"{row['spills']} spills, {row['scratch_bytes']} bytes of scratch, {row['vgprs']} VGPRs at most",
            ),
            _judged(
                "lds",
                row["lds_bytes"] <= row["lds_limit"],
                f"{row['lds_bytes']} bytes of LDS, {row['lds_limit']} there are",
            ),
            _budget_check(row),
        ]
        moved = f"{row['bytes_moved']} bytes moved, {row['ratio']:.4f} x compulsory"
        if row["limit"] is not None:
            checks.append(_judged("traffic", row["ratio"] <= row["limit"], f"{moved}, at most {row['limit']:.4f}"))
        if row["blocks_agree"] is not None:
            checks.append(
                _judged("scaling", row["blocks_agree"], "two blocks move and do twice what one does, weights once")
            )
        if "skinny" in row["path"]:
            count, again = len(row["kernels"]), row["weight_lines_reread"]
            checks.append(_judged("launches", count == 2, f"{count} launches, 2 due"))
            checks.append(_judged("weights", again == 0, f"{again} lines of weights read a second time"))
        return checks


def _agree(runs: list[Measured], blocks: tuple[int, ...]) -> bool | None:
    """Whether a longer run moved and worked what scaling the first one says; ``None`` with one run."""
    if len(runs) == 1:
        return None
    return all(
        traffic.scale_lines(traffic.add_lines(runs[0].lines), rows // blocks[0]) == traffic.add_lines(run.lines)
        and traffic.add_work(runs[0].work, rows // blocks[0]) == traffic.add_work(run.work)
        for run, rows in zip(runs[1:], blocks[1:], strict=True)
    )


def _judged(output: str, passed: bool, message: str) -> JsonDict:
    return comparison(output, "cost", passed, message)


def figures(row: JsonDict) -> dict[str, int]:
    """The figures of a cost record that its budget holds, in the order of :data:`FIGURES`."""
    found = {"bytes_moved": row["bytes_moved"], "mfma": row["mfma"], "launches": len(row["kernels"]), **row["work"]}
    return {name: found[name] for name in FIGURES}


def _budget_check(row: JsonDict) -> JsonDict:
    """The committed row: the same path, and no figure above it."""
    committed = row["budget"]
    again = "python -m validation.ops.make_budget writes the table"
    if committed is None:
        return _judged("budget", False, f"no row for {row['arch']} {row['case']} in {BUDGET.name}; {again}")
    if committed["path"] != row["path"]:
        return _judged("budget", False, f"the plan picks {row['path']}, the budget is for {committed['path']}; {again}")
    now = figures(row)
    worse = [f"{name} is {value}, budget {committed[name]}" for name, value in now.items() if value > committed[name]]
    better = [name for name, value in now.items() if value < committed[name]]
    message = "; ".join(worse) or (f"below budget: {', '.join(better)} ({again})" if better else "exactly on budget")
    return _judged("budget", not worse, message)
