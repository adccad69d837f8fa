"""What drivers are made of (see :class:`validation.operation.Driver`); for worker processes, as it imports torch.

rows      which rows of a large call run, and tensors that hold only those
outputs   records of checks: oracle, form, what was written
driver    a driver from a function, its inputs and a table of illegal calls
"""

from validation.kit.driver import Call, CallDriver
from validation.kit.outputs import (
    check_exact,
    check_form,
    check_written,
    comparison_of,
    neighbours,
    rows_of,
    simple_check,
    stage_records,
)
from validation.kit.rows import EDGES, Placer, contiguous_spans, edge_rows

__all__ = [
    "EDGES",
    "Call",
    "CallDriver",
    "Placer",
    "check_exact",
    "check_form",
    "check_written",
    "comparison_of",
    "contiguous_spans",
    "edge_rows",
    "neighbours",
    "rows_of",
    "simple_check",
    "stage_records",
]
