"""Operations whose kernel saw other shapes than their case's, and whose results are right all the same, do not pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hcgr
import hcgr_examples.add_rms_norm.driver as second
from oracle import reference
from validation.in_process import run_case
from validation.launched import shape_of
from validation.operation import load_operation

COMBINE = "correctness.combine.m5.hc4.hs2560.injodd.rowspadded.wbf16.wshared.normal.outgiven"
SECOND = "correctness.add_rms_norm.m5.n520.strided.normal"


def refusal(record: Any) -> str:
    """The reason of a case that fails for its receipts alone."""
    assert record["launches"]
    assert record["findings"] == []
    assert all(check["passed"] for check in record["comparisons"])
    assert record["status"] == "fail"
    return str(record["reason"])


@pytest.mark.parametrize(
    ("operation", "case", "names"),
    [
        ("hcgr", COMBINE, {"residual", "block_output", "injection", "r2"}),
        ("add_rms_norm", SECOND, {"x", "residual", "weight"}),
    ],
)
def test_receipts_hold_the_shapes_due(operation: str, case: str, names: set[str]) -> None:
    record = run_case(operation, "gfx942", case)
    assert (record["status"], record["reason"]) == ("pass", "")
    assert set(record["facts"]["shapes"]) == names
    (launch,) = record["launches"]
    assert {name: list(shape_of(launch["arguments"][name]) or ()) for name in names} == record["facts"]["shapes"]


def test_no_rows_are_due_nothing() -> None:
    record = run_case("add_rms_norm", "gfx942", "correctness.add_rms_norm.m0.n1000.strided.normal")
    assert (record["status"], record["launches"], record["facts"]["shapes"]) == ("pass", [], {})


def test_combine_on_the_first_rows_and_torch_on_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    true = hcgr.flydsl_gr_two_stage_combine

    def some(residual: Any, block_output: Any, injection: Any, weight: Any, hc: int, *, out: Any) -> Any:
        out.copy_(reference.combine(residual, block_output, injection, hc).reshape(out.shape))
        true(residual[:2], block_output[:2], injection[:2], weight, hc, out=out[:2])
        return out

    monkeypatch.setattr(hcgr, "flydsl_gr_two_stage_combine", some)
    reason = refusal(run_case("hcgr", "gfx942", COMBINE))
    assert reason == (
        "hcgr_combine_hc4_hs2560_rows1 was launched with residual bfloat16[2,10240] strides [10248,1], due is [5,10240]"
    )


def test_the_second_operation_on_a_part_and_torch_on_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel is handed bare addresses: the shape is that of what lies there."""
    true = second.Driver.function

    def some(x: Any, residual: Any, weight: Any, eps: float) -> Any:
        part, beside = x[:3].clone(), residual[:3].clone()
        true(part, beside, weight, eps)
        residual.copy_((x.float() + residual.float()).bfloat16())
        scale = (residual.double().square().mean(1, keepdim=True) + eps).rsqrt()
        x.copy_((residual.double() * scale * weight.double()).bfloat16())
        assert torch.equal(residual[:3], beside)
        return x, residual

    monkeypatch.setattr(second.Driver, "function", staticmethod(some))
    reason = refusal(run_case("add_rms_norm", "gfx942", SECOND))
    assert reason == "add_rms_norm_520 was launched with x bfloat16[3,520], due is [5,520]"


@pytest.mark.parametrize("operation", ["hcgr", "add_rms_norm"])
def test_every_entry_point_names_shapes_that_follow_from_its_case(operation: str) -> None:
    """Rows, and a width, of every case; and none of a case that launches nothing."""
    for entry in load_operation(operation).entry_points:
        for case in entry.grid.pairwise(0):
            due, m = entry.shapes_due(case.params), case.params["m"]
            if m == 0:
                assert due == {}
                continue
            rows = [shape for shape in due.values() if shape[0] == m and len(shape) == 2]
            assert len(rows) >= 2, (entry.name, case.name, due)
            assert all(size > 0 for shape in due.values() for size in shape)
