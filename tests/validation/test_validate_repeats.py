"""Two runs with the same seed say the same, whatever the number of workers: cases are equal apart from times."""

from __future__ import annotations

import json
import re
from typing import Any

from test_validate_runner import Quiet

from validation.operation import load_operation
from validation.runner import Plan, run_arch

#: Contract messages; results and receipts of launches.
CASES = (
    "contract.combine.out_unaligned",
    "contract.combine.hs_untileable",
    "correctness.combine.m2.hc2.hs8192.inj336.rowspadded.wf32.wfull.normal.outalloc",
    "correctness.combine.m3.hc2.hs2560.injodd.rowspadded.wf32.wfull.exact.outgiven",
)


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_times(v) for k, v in value.items() if k != "duration_s"}
    return [without_times(v) for v in value] if isinstance(value, list) else value


def cases(jobs: int) -> str:
    """The cases of one run, as the report spells them."""
    report = run_arch(Plan(load_operation("hcgr"), "hcgr", seed=5, jobs=jobs, cases=CASES), "gfx950", Quiet())
    found = [case for stage in report["stages"] for case in stage["cases"]]
    assert len(found) == len(CASES)
    assert {case["status"] for case in found} == {"pass"}, found
    return json.dumps(without_times(found), indent=1)


def test_a_second_run_is_equal() -> None:
    first, second = cases(1), cases(2)
    assert first == second
    assert re.findall(r"0x[0-9a-f]{8,}", first) == []
