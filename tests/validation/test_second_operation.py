"""The second operation, through the same stages as HCGR: it passes, and each of its guards matters."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from validation.devices import ARCHES
from validation.in_process import run_case
from validation.mutation.edit import ROOT, Edit, variant
from validation.operation import load_operation
from validation.stages import Request, contract, correctness
from validation.strategies import Sample, check, samples

NAME = "add_rms_norm"
KERNEL = "hcgr_examples/add_rms_norm/kernel.py"
DRIVER = "hcgr_examples.add_rms_norm.driver"
OPERATION = load_operation(NAME)

#: Tails of both kinds, strided rows, no rows, special values, and rows past 2^32 bytes.
CASES = (
    "m0.n1000.strided.normal",
    "m3.n8.dense.wide",
    "m5.n520.strided.normal",
    "m5.n1000.dense.special",
    "m4g.n4096.strided.zeros",
)

#: What is broken, an edit that does it, a case that must fail, and what must have seen it.
BROKEN = {
    "row guard": (("if row < rows:", "if row >= 0:"), "m5.n520.strided.normal", "memcheck"),
    "column guard": (("if places[i] < columns:", "if places[i] >= 0:"), "m5.n520.dense.normal", "memcheck"),
    "masked sum": (("(column < columns).select(square,", "(column >= 0).select(square,"), "m3.n8.dense.normal", "x"),
    "stride": (("residual + fx.Int64(row) * residual_stride", "residual + fx.Int64(row) * columns"),
               "m5.n1000.strided.normal", "x"),
    "row in 32 bits": (("x + fx.Int64(row) * x_stride", "x + fx.Int64(row * fx.Int32(x_stride))"),
                       "m4g.n1000.dense.normal", "memcheck"),
    "epsilon": (("(mean + eps)", "(mean + 0.0 * eps)"), "m5.n8.dense.zeros", "x"),
    "rounding of the sum": (("normed = sums[i].to(fx.Float32)", "normed = (sums[i].to(fx.Float32) * 1.001)"),
                            "m3.n8.dense.normal", "x"),
}  # fmt: skip


def broken(name: str) -> Any:
    """Context in which the kernel has the edit called ``name``."""
    (find, replace), _, _ = BROKEN[name]
    return variant([Edit(KERNEL, find, replace)], reload=(DRIVER,))


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("case", CASES)
def test_cases_pass(case: str, arch: str) -> None:
    record = run_case(NAME, arch, f"correctness.{NAME}.{case}")
    assert (record["status"], record["reason"]) == ("pass", "")
    rows = OPERATION.entry_points[0].grid.decode(case).params["m"]
    assert [launch["arch"] for launch in record["launches"]] == ([arch] if rows else [])
    assert {c["tier"] for c in record["comparisons"]} == ({"form", "bound"} if rows else {"form"})


@pytest.mark.parametrize("row", OPERATION.entry_points[0].contract, ids=lambda row: row.name)
def test_contract_rows_hold(row: Any) -> None:
    record = run_case(NAME, ARCHES[0], f"contract.{NAME}.{row.name}")
    assert (record["status"], record["reason"], record["launches"]) == ("pass", "", [])
    assert record["facts"]["raised"] == row.error


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_kernel_fails(name: str) -> None:
    (_, case, seen_by) = BROKEN[name]
    with broken(name):
        record = run_case(NAME, ARCHES[0], f"correctness.{NAME}.{case}")
    assert record["status"] == "fail", record["detail"]
    evidence = {finding["check"] for finding in record["findings"]}
    evidence |= {check["output"] for check in record["comparisons"] if not check["passed"]}
    assert seen_by in evidence, record["reason"]
    assert run_case(NAME, ARCHES[0], f"correctness.{NAME}.{case}")["status"] == "pass"


def test_a_kernel_swapped_for_a_torch_call_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its values are right, and no kernel made them."""

    def swapped(x: Any, residual: Any, weight: Any, eps: float) -> Any:
        residual.copy_((x.float() + residual.float()).bfloat16())
        normed = residual.double()
        x.copy_((normed * (normed.square().mean(1, keepdim=True) + eps).rsqrt() * weight.double()).bfloat16())
        return x, residual

    driver = importlib.import_module(DRIVER).Driver
    monkeypatch.setattr(driver, "function", staticmethod(swapped))
    record = run_case(NAME, ARCHES[0], f"correctness.{NAME}.m3.n8.dense.wide")
    assert (record["status"], record["launches"]) == ("error", [])
    assert "no launch was observed: the outputs did not come from a kernel" in record["reason"]
    assert all(check["passed"] for check in record["comparisons"])


def test_a_missing_row_guard_shrinks_to_the_smallest_call() -> None:
    @given(samples(NAME, m=range(9), columns=["n8", "n520"], values=["normal", "special"]))
    @settings(max_examples=10, deadline=None, derandomize=True, database=None)
    def any_case(sample: Sample) -> None:
        check(sample, "gfx950")

    with broken("row guard"), pytest.raises(AssertionError) as failed:
        any_case()
    command = f"hcgr-validate --op {NAME} --arch gfx950 --case correctness.{NAME}.m1.n8.dense.normal --seed 0"
    assert str(failed.value).splitlines()[-1] == f"replay: {command}"


def test_stages_plan_from_the_description_alone() -> None:
    request = Request(OPERATION, NAME, ARCHES[0], 0)
    tasks = [*correctness.plan(request), *contract.plan(request)]
    roles = {value.role for axis in OPERATION.entry_points[0].grid.axes for value in axis.values}
    assert {"production", "tile boundary", "odd", "tiny", "zero", "beyond 2^31", "beyond 2^32"} <= roles
    assert len(tasks) > 30
    code = f"import sys; from validation.operation import load_operation; load_operation({NAME!r})"
    code += "; sys.exit([m for m in ('torch', 'flydsl', 'hcgr_examples.add_rms_norm.kernel') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.strip() == "[]"


def test_it_is_a_tutorial_by_its_size() -> None:
    files = ["kernel.py", "driver.py", "operation.py"]
    lines = [line for file in files for line in Path(ROOT, "hcgr_examples", NAME, file).read_text().splitlines()]
    assert len([line for line in lines if line.strip()]) < 150
