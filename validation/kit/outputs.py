"""Records of checks: an oracle's comparison, the form of an output, and what was written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from oracle.compare import Comparison, Comparisons, compare_exact
from oracle.guards import unwritten
from validation.cases import comparison
from validation.kit.rows import contiguous_spans
from validation.operation import JsonDict


def comparison_of(output: str, tier: str, result: Comparison, rows: Sequence[int] | None = None) -> JsonDict:
    """The report's record of an oracle comparison. ``rows`` maps a compared row to its row in the full tensor."""
    index = list(result.worst.index) if result.worst else None
    if index and rows is not None:
        index[0] = rows[index[0]]
    return comparison(
        output,
        tier,
        result.passed,
        str(result),
        elements=result.elements,
        max_abs_error=abs(result.worst.got - result.worst.want) if result.worst else None,
        max_ratio=result.max_ratio,
        ratio_p50=result.percentiles.get(50.0),
        ratio_p99=result.percentiles.get(99.0),
        mean_signed_error=result.bias,
        worst_index=index,
    )


def simple_check(output: str, tier: str, problems: Sequence[str], good: str, elements: int | None = None) -> JsonDict:
    """A check that holds unless there are problems."""
    return comparison(output, tier, not problems, "; ".join(problems) or good, elements=elements)


def check_form(
    name: str, tensor: Any, shape: Sequence[int], dtype: torch.dtype, row_stride: int, same: torch.Tensor | None = None
) -> JsonDict:
    """Shape, dtype, strides, and that the result is the very tensor ``same``, if given."""
    problems = []
    if tuple(tensor.shape) != tuple(shape) or tensor.dtype != dtype:
        problems.append(f"is {tensor.dtype} {tuple(tensor.shape)}, must be {dtype} {tuple(shape)}")
    elif tensor.numel() and (tensor.stride(1) != 1 or (tensor.shape[0] > 1 and tensor.stride(0) != row_stride)):
        problems.append(f"has strides {tensor.stride()}, must have {(row_stride, 1)}")
    if same is not None and tensor.data_ptr() != same.data_ptr():
        problems.append("is not the caller's tensor")
    return simple_check(name, "form", problems, "shape, dtype and layout as promised")


def neighbours(rows: Sequence[int] | None, m: int) -> list[int]:
    """Rows beside the chosen ones, which no workgroup that runs owns."""
    if rows is None:
        return []
    beside = {n for span in contiguous_spans(rows) for n in (span.start - 1, span.stop)}
    return sorted(n for n in beside if 0 <= n < m)


def check_written(name: str, tensor: torch.Tensor, rows: Sequence[int] | None, beside: Sequence[int]) -> JsonDict:
    """No element of ``rows`` (``None``: of any row) still holds the poison, every element of ``beside`` does."""
    problems = []
    m = tensor.shape[0]
    for span in [slice(0, m)] if rows is None else contiguous_spans(rows):
        missing = unwritten(tensor[span])
        if len(missing):
            row, column = (int(i) for i in missing[0])
            problems.append(
                f"{len(missing)} elements of rows {span.start}..{span.stop - 1} were never written, "
                f"first [{span.start + row}, {column}]"
            )
    for row in beside:
        if len(unwritten(tensor[row : row + 1])) != tensor.shape[1]:
            problems.append(f"row {row} was written, no workgroup that ran owns it")
    count = m if rows is None else len(rows)
    return simple_check(
        name, "written", problems, f"{count} rows written, {len(beside)} beside them kept", count * tensor.shape[1]
    )


def rows_of(tensors: Mapping[str, torch.Tensor | None], rows: Sequence[int] | None) -> dict[str, torch.Tensor]:
    """The chosen rows (``None``: all) of each tensor that there is."""
    index = None if rows is None else torch.tensor(rows)
    return {
        name: tensor if index is None else tensor.index_select(0, index.to(tensor.device))
        for name, tensor in tensors.items()
        if tensor is not None
    }


def check_exact(name: str, tensor: torch.Tensor, due: torch.Tensor, rows: Sequence[int] | None) -> JsonDict:
    """The chosen rows of ``tensor`` against ``due``, bit for bit."""
    got = tensor if rows is None else tensor.index_select(0, torch.tensor(rows))
    return comparison_of(name, "exact", compare_exact(name, got, due.reshape(got.shape)), rows)


def stage_records(stages: Comparisons, names: dict[str, str], tier: str) -> list[JsonDict]:
    """Records of an oracle result of several stages; ``names`` maps a stage to the output it is about."""
    return [comparison_of(names.get(stage, stage), tier, result) for stage, result in stages.stages.items()]
