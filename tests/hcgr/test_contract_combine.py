"""The error contract of COMBINE, row by row: error type, message, nothing launched, nothing written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hcgr
from hcgr import contract
from hcgr.plan import CombinePlan

from .standin import StandIn, make_inputs

M, HC, HS = 3, 4, 512
K = HC * HS
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Stream:
    """A stream as the contract sees one."""

    device: torch.device
    cuda_stream: int = 7


def padded(tensor: torch.Tensor, extra: int) -> torch.Tensor:
    """The same values as a view whose row stride is `extra` elements larger."""
    wide = torch.zeros(tensor.shape[0], tensor.shape[1] + extra, dtype=tensor.dtype)
    wide[:, : tensor.shape[1]] = tensor
    return wide[:, : tensor.shape[1]]


def shifted(tensor: torch.Tensor, elements: int) -> torch.Tensor:
    """The same values, contiguous, starting `elements` past an allocation."""
    flat = torch.zeros(tensor.numel() + elements, dtype=tensor.dtype)
    view = flat[elements:].view(tensor.shape)
    view.copy_(tensor)
    return view


def column_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.t().contiguous().t()


Change = Callable[[dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """One row: how a valid call is broken, and the error that it must give."""

    name: str
    change: Change
    error: type[Exception]
    mentions: tuple[str, ...]


def replace(**values: Any) -> Change:
    return lambda _call: values


def on(name: str, f: Callable[[torch.Tensor], Any]) -> Change:
    return lambda call: {name: f(call[name])}


def out(make: Callable[[dict[str, Any]], Any]) -> Change:
    return lambda call: {"out": make(call)}


def misaligned_out(_call: dict[str, Any]) -> torch.Tensor:
    return shifted(torch.zeros(M, K, dtype=BF16), 1)


def overlapping_by_a_row(call: dict[str, Any]) -> dict[str, Any]:
    storage = torch.zeros(2 * M - 1, K, dtype=BF16)
    storage[:M] = call["residual"]
    return {"residual": storage[:M], "out": storage[M - 1 :]}


def inside_a_packed_buffer(call: dict[str, Any]) -> dict[str, Any]:
    """`out` in the same allocation as a strided injection, between its rows."""
    storage = torch.zeros(M, 2 * M * K, dtype=BF16)
    injection = storage[:, :HC]
    injection.copy_(call["injection"])
    return {"injection": injection, "out": storage.view(-1)[8 : 8 + M * K].view(M, K)}


SHAPES = [
    Row("residual rank 1", on("residual", lambda t: t[0]), ValueError, ("residual", "rank 2", "[2048]")),
    Row("residual rank 3", on("residual", lambda t: t.view(M, HC, HS)), ValueError, ("residual", "rank 2")),
    Row(
        "residual float16",
        on("residual", lambda t: t.half()),
        ValueError,
        ("residual", "bfloat16", "float16"),
    ),
    Row("residual untileable", on("residual", lambda t: t[:, :-8]), ValueError, ("residual", "512", "2040")),
    Row("residual empty width", on("residual", lambda t: t[:, :0]), ValueError, ("residual", "512", "width 0")),
    Row("residual of other HC", replace(hc_count=8), ValueError, ("residual", "512", "hc_count=8")),
    Row(
        "y dtype",
        on("block_output", lambda t: t.float()),
        ValueError,
        ("block_output", "bfloat16", "float32"),
    ),
    Row("y rank", on("block_output", lambda t: t[0]), ValueError, ("block_output", "[M, HS]", "[3, 512]")),
    Row("y rows", on("block_output", lambda t: t[:2]), ValueError, ("block_output", "[3, 512]", "[2, 512]")),
    Row("y width", on("block_output", lambda t: t[:, :256]), ValueError, ("block_output", "[3, 256]")),
    Row(
        "injection dtype",
        on("injection", lambda t: t.float()),
        ValueError,
        ("injection", "bfloat16", "float32"),
    ),
    Row("injection rows", on("injection", lambda t: t[:2]), ValueError, ("injection", "[3, 4]", "[2, 4]")),
    Row(
        "injection columns",
        on("injection", lambda t: t[:, :2]),
        ValueError,
        ("injection", "[M, HC]", "[3, 2]"),
    ),
    Row("injection rank", on("injection", lambda t: t[:, :, None]), ValueError, ("injection", "[3, 4]")),
    Row("norm dtype", on("norm_weight", lambda t: t.half()), ValueError, ("norm_weight", "float32", "float16")),
    Row(
        "norm length",
        on("norm_weight", lambda t: t[:8]),
        ValueError,
        ("norm_weight", "[512]", "[2048]", "[8]"),
    ),
    Row("norm rank", on("norm_weight", lambda t: t[None]), ValueError, ("norm_weight", "[HS]", "[1, 512]")),
]
NUMBERS = [
    Row("hc 3", replace(hc_count=3), ValueError, ("hc_count", "2, 4, 8", "got 3")),
    Row("hc 0", replace(hc_count=0), ValueError, ("hc_count", "got 0")),
    Row("hc negative", replace(hc_count=-4), ValueError, ("hc_count", "got -4")),
    Row("hc 16", replace(hc_count=16), ValueError, ("hc_count", "got 16")),
    Row("eps 0", replace(eps=0.0), ValueError, ("eps", "above 0", "got 0.0")),
    Row("eps negative", replace(eps=-1e-6), ValueError, ("eps", "finite", "-1e-06")),
    Row("eps nan", replace(eps=math.nan), ValueError, ("eps", "finite", "nan")),
    Row("eps inf", replace(eps=math.inf), ValueError, ("eps", "finite", "inf")),
]
LAYOUTS = [
    Row("residual columns", on("residual", column_major), ValueError, ("residual", "stride 1", "[1, 3]")),
    Row("residual row stride", on("residual", lambda t: padded(t, 4)), ValueError, ("residual", "8", "2052")),
    Row(
        "residual offset",
        on("residual", lambda t: shifted(t, 1)),
        ValueError,
        ("residual", "16 bytes", "offset 1"),
    ),
    Row("y columns", on("block_output", column_major), ValueError, ("block_output", "stride 1")),
    Row("y row stride", on("block_output", lambda t: padded(t, 2)), ValueError, ("block_output", "8", "514")),
    Row(
        "y offset",
        on("block_output", lambda t: shifted(t, 4)),
        ValueError,
        ("block_output", "16 bytes", "offset 4"),
    ),
    Row(
        "injection columns",
        on("injection", column_major),
        ValueError,
        ("injection", "last dimension", "[1, 3]"),
    ),
    Row(
        "injection every other column",
        on("injection", lambda t: t.repeat_interleave(2, 1)[:, ::2]),
        ValueError,
        ("injection", "stride 1", "[8, 2]"),
    ),
    Row(
        "norm strided",
        on("norm_weight", lambda t: t.repeat_interleave(2)[::2]),
        ValueError,
        ("norm_weight", "contiguous", "[2]"),
    ),
]
DEVICES = [
    *(
        Row(f"{name} elsewhere", on(name, lambda t: t.to("meta")), ValueError, ("on meta", "cpu"))
        for name in ("residual",)
    ),
    *(
        Row(
            f"{name} elsewhere",
            on(name, lambda t: t.to("meta")),
            ValueError,
            (name, "on cpu", "residual", "meta"),
        )
        for name in ("block_output", "injection", "norm_weight")
    ),
    Row(
        "out elsewhere",
        out(lambda _: torch.empty(M, K, dtype=BF16, device="meta")),
        ValueError,
        ("out", "on cpu", "meta"),
    ),
    Row(
        "stream elsewhere",
        replace(stream=Stream(torch.device("cuda", 1))),
        ValueError,
        ("stream", "of cpu", "cuda:1"),
    ),
    Row("no stream", replace(stream=7), TypeError, ("stream", "torch.cuda.Stream", "int 7")),
]
OUTPUTS = [
    Row("out dtype", out(lambda _: torch.zeros(M, K)), ValueError, ("out", "bfloat16", "float32")),
    Row("out shape", out(lambda _: torch.zeros(M, HC, HS, dtype=BF16)), ValueError, ("out", "[3, 2048]")),
    Row(
        "out rows",
        out(lambda _: torch.zeros(M + 1, K, dtype=BF16)),
        ValueError,
        ("out", "[3, 2048]", "[4, 2048]"),
    ),
    Row(
        "out strided",
        out(lambda _: torch.zeros(M, K + 8, dtype=BF16)[:, :K]),
        ValueError,
        ("out", "contiguous"),
    ),
    Row("out columns", out(lambda _: torch.zeros(K, M, dtype=BF16).t()), ValueError, ("out", "contiguous")),
    Row("out misaligned", out(misaligned_out), ValueError, ("out", "16 bytes", "offset 1")),
    Row("out is residual", out(lambda call: call["residual"]), ValueError, ("out", "disjoint from residual")),
    Row("out overlaps residual", overlapping_by_a_row, ValueError, ("out", "disjoint from residual")),
    Row("out overlaps injection", inside_a_packed_buffer, ValueError, ("out", "disjoint from injection")),
]
TABLE = [*SHAPES, *NUMBERS, *LAYOUTS, *DEVICES, *OUTPUTS]


def valid_call() -> dict[str, Any]:
    return {**make_inputs(M, HC, HS), "hc_count": HC}


def bytes_of(call: dict[str, Any]) -> dict[str, bytes]:
    tensors = {n: t for n, t in call.items() if isinstance(t, torch.Tensor) and t.device.type == "cpu"}
    return {n: bytes(t.untyped_storage().tolist()) for n, t in tensors.items()}


def poison(call: dict[str, Any]) -> None:
    """Fill a valid-looking `out` with a pattern, unless that would change an input."""
    buffer = call.get("out")
    if buffer is not None and buffer.device.type == "cpu":
        storages = [
            t.untyped_storage().data_ptr() for n, t in call.items() if isinstance(t, torch.Tensor) and n != "out"
        ]
        if buffer.untyped_storage().data_ptr() not in storages:
            buffer.untyped_storage().fill_(0xA5)


def check_message(row: Row, message: str) -> None:
    for word in row.mentions:
        assert word in message, f"{word!r} is not in {message!r}"


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_a_broken_call_raises_and_leaves_everything_alone(row: Row, standin: StandIn) -> None:
    call = valid_call()
    call.update(row.change(call))
    poison(call)
    before = bytes_of(call)
    with pytest.raises(row.error) as caught:
        hcgr.flydsl_gr_two_stage_combine(**call)
    check_message(row, str(caught.value))
    assert bytes_of(call) == before
    assert not standin.calls
    assert not standin.compiled


@pytest.mark.parametrize("row", [r for r in TABLE if "stream" not in r.name], ids=lambda row: row.name)
def test_the_contract_answers_without_a_launch(row: Row) -> None:
    call = valid_call()
    call.update(row.change(call))
    problems = list(contract.combine_problems(**call))
    assert problems
    assert all(problem.error is row.error for problem in problems)
    with pytest.raises(row.error) as caught:
        contract.check_combine(**call)
    check_message(row, str(caught.value))


def test_every_problem_of_a_group_is_reported() -> None:
    call = valid_call() | {"hc_count": 3, "eps": -1.0}
    assert {problem.argument for problem in contract.combine_problems(**call)} == {"hc_count", "eps"}


@pytest.mark.parametrize("value", [True, 4.0, "4", None])
def test_hc_count_is_an_integer(value: object) -> None:
    with pytest.raises(ValueError, match="hc_count must be one of 2, 4, 8"):
        contract.check_combine(**valid_call() | {"hc_count": value})


@pytest.mark.parametrize("name", ["residual", "block_output", "injection", "norm_weight"])
def test_a_tensor_argument_that_is_none(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a tensor, got NoneType"):
        contract.check_combine(**valid_call() | {name: None})


def test_sparse_tensors_are_refused() -> None:
    with pytest.raises(ValueError, match="residual must be a dense"):
        contract.check_combine(**valid_call() | {"residual": torch.eye(4).to_sparse()})


def test_arch_is_part_of_the_contract() -> None:
    contract.check_combine(**valid_call(), arch="gfx942:sramecc+")
    with pytest.raises(NotImplementedError) as caught:
        contract.check_combine(**valid_call(), arch="gfx90a")
    for word in ("arch", "gfx90a", "gfx942", "gfx950", "emulator"):
        assert word in str(caught.value)


@pytest.mark.parametrize("name", ["block_output", "injection", "norm_weight", "out"])
def test_two_gpus(name: str) -> None:
    """Devices that this machine need not have: fake tensors on two GPUs."""
    with FakeTensorMode():
        call = {n: t for n, t in valid_call().items() if n == "hc_count"}
        shapes = {
            "residual": (M, K),
            "block_output": (M, HS),
            "injection": (M, HC),
            "norm_weight": (HS,),
            "out": (M, K),
        }
        for argument, shape in shapes.items():
            device = "cuda:1" if argument == name else "cuda:0"
            call[argument] = torch.empty(shape, dtype=BF16, device=device)
        problems = list(contract.combine_problems(**call, addresses=False))
    assert [str(p) for p in problems] == [f"{name} must be on cuda:0, the device of residual, got cuda:1"]


@pytest.mark.parametrize(
    ("stream", "device", "accepted"),
    [
        ("cuda:0", "cuda:0", True),
        ("cuda", "cuda:0", True),
        ("cuda:1", "cuda:0", False),
        ("cuda:0", "cpu", False),
        ("cpu", "cpu", True),
    ],
)
def test_streams_belong_to_the_tensors_device(stream: str, device: str, accepted: bool) -> None:
    with FakeTensorMode():
        residual = torch.empty(M, K, dtype=BF16, device=device)
    problems = list(contract.stream_problems(Stream(torch.device(stream)), residual))
    assert (not problems) is accepted


def test_a_launch_larger_than_hip_takes() -> None:
    limit = CombinePlan(HC, HS, 4).max_tokens()
    one = make_inputs(1, HC, HS)

    def call(rows: int) -> dict[str, Any]:
        matrices = {n: one[n].expand(rows, -1) for n in ("residual", "block_output", "injection")}
        return {**one, **matrices, "hc_count": HC}

    contract.check_combine(**call(limit))
    message = f"residual must be of at most {limit} rows in one launch, got {limit + 1}"
    with pytest.raises(ValueError, match=message):
        contract.check_combine(**call(limit + 1))


ACCEPTED: dict[str, Change] = {
    "plain": replace(),
    "norm_weight full width": replace(norm_weight=torch.ones(K, dtype=BF16)),
    "norm_weight float32": replace(norm_weight=torch.ones(HS)),
    "norm_weight float32 full width": replace(norm_weight=torch.ones(K)),
    "residual of padded rows": on("residual", lambda t: padded(t, 8)),
    "residual expanded": on("residual", lambda t: t[:1].expand(M, -1)),
    "residual at a 16-byte offset": on("residual", lambda t: shifted(t, 8)),
    "y of padded rows": on("block_output", lambda t: padded(t, 24)),
    "injection in packed": on("injection", lambda t: padded(t, 332)),
    "injection at an odd offset and stride": on("injection", lambda t: shifted(padded(t, 1), 1)),
    "injection expanded": on("injection", lambda t: t[:1].expand(M, -1)),
    "one row of any row stride": lambda call: {
        **{n: call[n][:1] for n in ("block_output", "injection")},
        "residual": torch.zeros(8 * K + 2, dtype=BF16).as_strided((1, K), (3, 1)),
    },
    "out": out(lambda _: torch.zeros(M, K, dtype=BF16)),
    "out beside residual in one allocation": lambda call: dict(
        zip(("residual", "out"), torch.zeros(2 * M, K, dtype=BF16).split(M), strict=True)
    ),
}


@pytest.mark.parametrize("change", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_layouts_that_must_be_accepted(change: Change) -> None:
    call = valid_call()
    call.update(change(call))
    assert not list(contract.combine_problems(**call))
