"""How a legal call of an entry point is broken, and what it must then say; shared by the contract tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from . import calls
from .calls import FUNCTIONS, LEGAL, Call, Change, K, NoLaunch, on, replace


@dataclass(frozen=True)
class Row:
    """How a legal call is broken, and the error that it must give."""

    name: str
    change: Change
    mentions: tuple[str, ...]
    error: type[Exception] = ValueError


@dataclass(frozen=True)
class Stream:
    """A stream as the contract sees one."""

    device: torch.device
    cuda_stream: int = 7


#: Tensor arguments of each entry point: what their message calls accepted, and their kind of layout.
#: rows: contiguous rows, 16-byte aligned; inner: contiguous rows; whole: contiguous, aligned; values: contiguous,
#: of any alignment; any: any strides.
TENSORS: dict[str, dict[str, tuple[str, str]]] = {
    "combine_and_mix": {
        "residual": ("[M, HC*HS]", "rows"),
        "block_output": ("[M, HS]", "rows"),
        "injection": ("[M, HC]", "inner"),
        "norm_weight": ("[HS] or [HC*HS]", "whole"),
        "w_down": ("[r, HC*HS]", "any"),
        "w_up": ("[HC*HS, r]", "whole"),
        "w_inject": ("[HC, HC*HS]", "any"),
        "w_down_merged": ("[n_pad, HC*HS]", "whole"),
    },
    "k1": {
        "residual": ("[M, HC*HS]", "rows"),
        "block_output": ("[M, HS]", "rows"),
        "injection": ("[M, HC]", "inner"),
        "norm_weight": ("[HS] or [HC*HS]", "whole"),
        "w_dn_merged": ("[n_pad, HC*HS]", "whole"),
        "r2_out": ("[M, HC*HS]", "whole"),
        "out": ("[M, n_pad]", "whole"),
        "rrms_out": ("[M, HC]", "whole"),
    },
    "k2": {
        "lora": ("[M, r]", "rows"),
        "r2": ("[M, HC*HS]", "rows"),
        "rrms": ("[M, HC]", "values"),
        "norm_weight": ("[HS] or [HC*HS]", "whole"),
        "w_up": ("[HC*HS, r]", "whole"),
        "block_input": ("[M, HS]", "whole"),
    },
}
TENSORS["mix"] = {n: v for n, v in TENSORS["combine_and_mix"].items() if n not in ("block_output", "injection")}


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return calls.column_major(tensor) if tensor.dim() == 2 else calls.sparse_elements(tensor)


def _layout_rows(name: str, kind: str) -> Iterator[Row]:
    if kind == "any":
        return
    yield Row(f"{name} columns", on(name, transposed), (name, "contiguous", "strides"))
    if kind in ("rows", "whole"):
        yield Row(f"{name} offset", on(name, lambda t: calls.shifted(t, 1)), (name, "16 bytes", "offset 1"))
    if kind == "rows":
        yield Row(f"{name} row stride", on(name, lambda t: calls.padded(t, 4)), (name, "row stride", "multiple of 8"))
    if kind in ("whole", "values") and name != "norm_weight":
        yield Row(f"{name} padded rows", on(name, lambda t: calls.padded(t, 8)), (name, "contiguous"))


def tensor_rows(entry: str) -> Iterator[Row]:
    """Rows that every tensor argument has."""
    first = next(iter(TENSORS[entry])) if entry != "k2" else "r2"
    for name, (meaning, kind) in TENSORS[entry].items():
        f32 = name.startswith("rrms")
        accepted = "float32" if f32 else "bfloat16"
        yield Row(f"{name} float16", on(name, lambda t: t.half()), (name, accepted, "float16"))
        yield Row(f"{name} rank", on(name, lambda t: t[None]), (name, meaning))
        yield Row(f"{name} no tensor", replace(**{name: 7}), (name, "a tensor", "int 7"), TypeError)
        there = ("meta", "cpu") if name == first else (name, "on cpu", "meta")
        yield Row(f"{name} elsewhere", on(name, lambda t: t.to("meta")), there)
        yield from _layout_rows(name, kind)


def overlapping(name: str, other: str) -> Change:
    """Buffer `name` shares its last bytes with the first of `other`."""

    def change(call: Call) -> Call:
        buffer, beside = call[name], call[other]
        size = buffer.numel() * buffer.element_size()
        place = (size - 16) // 16 * 16
        storage = torch.zeros(place + beside.untyped_storage().nbytes() + 16, dtype=torch.uint8)
        merged = storage[place : place + beside.numel() * beside.element_size()].view(beside.dtype)
        merged = merged.view(beside.shape).copy_(beside)
        return {name: storage[:size].view(buffer.dtype).view(buffer.shape), other: merged}

    return change


NUMBERS = [
    Row("hc 3", replace(hc_count=3), ("hc_count", "2, 4, 8", "got 3")),
    Row("hc True", replace(hc_count=True), ("hc_count", "2, 4, 8", "True")),
    Row("hc float", replace(hc_count=4.0), ("hc_count", "2, 4, 8", "4.0")),
]
NORMS = [
    Row("eps 0", replace(eps=0.0), ("eps", "above 0", "got 0.0")),
    Row("eps denormal", replace(eps=1e-40), ("eps", "normal range of float32", "1e-40")),
    Row("eps beyond float32", replace(eps=1e39), ("eps", "normal range of float32", "1e+39")),
    Row("eps nan", replace(eps=math.nan), ("eps", "finite", "nan")),
    Row("eps inf", replace(eps=math.inf), ("eps", "finite", "inf")),
    Row("fold_w none", replace(fold_w=None), ("fold_w", "True or False", "None")),
]
STREAMS = [
    Row("stream elsewhere", replace(stream=Stream(torch.device("cuda", 1))), ("stream", "of cpu", "cuda:1")),
    Row("no stream", replace(stream=7), ("stream", "torch.cuda.Stream", "int 7"), TypeError),
]
SHAPES = [
    Row("hs untileable", replace(residual=calls.ones(3, K - 8)), ("residual", "512", str(K - 8))),
    Row("hs of other hc", replace(hc_count=8), ("residual", "512", "hc_count=8")),
    Row("residual empty width", replace(residual=calls.ones(3, 0)), ("residual", "512", "width 0")),
]
PENDING = [
    Row("y rows", on("block_output", lambda t: t[:2]), ("block_output", "[M, HS]", "[2, 512]")),
    Row("y width", on("block_output", lambda t: t[:, :256]), ("block_output", "[M, HS]", "256]")),
    Row("injection rows", on("injection", lambda t: t[:2]), ("injection", "[M, HC]", "[2, 4]")),
    Row("injection columns", on("injection", lambda t: t[:, :2]), ("injection", "[M, HC]")),
    Row("injection every other column", on("injection", calls.sparse_elements), ("injection", "stride 1", "2]")),
]


def cases(rows: dict[str, list[Row]]) -> list[Any]:
    """A parameter for each legal call of each entry point that `rows` names, and each row of it."""
    return [
        pytest.param(entry, make, row, id=f"{name}-{row.name}")
        for name, (entry, make) in LEGAL.items()
        for row in rows.get(entry, ())
    ]


def check_refusal(entry: str, make: Callable[[], Call], row: Row, no_launch: NoLaunch) -> None:
    """The broken call raises what its row says, launches nothing, and leaves every byte as it was."""
    call = make()
    call.update(row.change(call))
    before = calls.bytes_of(call)
    with pytest.raises(row.error) as caught:
        FUNCTIONS[entry](**call)
    missing = [word for word in row.mentions if word not in str(caught.value)]
    assert not missing, f"{missing} not in {caught.value}"
    assert calls.bytes_of(call) == before
    assert not no_launch.launches
    assert not no_launch.compiled
