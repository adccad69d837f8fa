"""The error contract of all entry points but COMBINE: error type, message, nothing launched, nothing written."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hcgr import contract
from hcgr.plan import choose

from . import calls
from .calls import FUNCTIONS, HC, HS, LEGAL, N_PAD, Call, Change, K, NoLaunch, R, on, replace


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


def rows_of(name: str, n: int) -> Row:
    return Row(f"{name} of {n} rows", on(name, lambda t: t[:n]), (name, str(n)))


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
PROJECTIONS = [
    Row("w_down width", on("w_down", lambda t: t[:, :-8]), ("w_down", "[r, HC*HS]", str(K))),
    Row("r untileable", lambda c: {"w_down": c["w_down"][:-4], "w_up": calls.ones(K, R - 4)}, ("w_down", "8", "r=60")),
    Row(
        "r too large",
        replace(w_down=calls.ones(520, K), w_up=calls.ones(K, 520), w_down_merged=None),
        ("w_down", "512", "r=520"),
    ),
    Row("r 0", replace(w_down=calls.ones(0, K), w_up=calls.ones(K, 0)), ("w_down", "positive", "r=0")),
    Row("w_up rows", on("w_up", lambda t: t[:-8]), ("w_up", "[HC*HS, r]", str(K - 8))),
    Row("w_up columns", replace(w_up=calls.ones(K, R + 8)), ("w_up", "[HC*HS, r]", str(R + 8))),
    Row("w_up transposed shape", on("w_up", lambda t: t.t().contiguous()), ("w_up", "[HC*HS, r]")),
    Row("w_inject rows", on("w_inject", lambda t: t[:2]), ("w_inject", "[HC, HC*HS]", "[2, 2048]")),
    Row("merged too few rows", on("w_down_merged", lambda t: t[:64]), ("w_down_merged", "at least 68 rows", "64")),
    Row("n_pad untileable", replace(w_down_merged=calls.ones(84, K)), ("w_down_merged", "multiple of 16", "84 rows")),
    Row("n_pad 0", on("w_down_merged", lambda t: t[:0]), ("w_down_merged", "positive multiple", "0 rows")),
    Row("merged width", on("w_down_merged", lambda t: t[:, :-8]), ("w_down_merged", "[n_pad, HC*HS]")),
]
PENDING = [
    Row("y rows", on("block_output", lambda t: t[:2]), ("block_output", "[M, HS]", "[2, 512]")),
    Row("y width", on("block_output", lambda t: t[:, :256]), ("block_output", "[M, HS]", "256]")),
    Row("injection rows", on("injection", lambda t: t[:2]), ("injection", "[M, HC]", "[2, 4]")),
    Row("injection columns", on("injection", lambda t: t[:, :2]), ("injection", "[M, HC]")),
    Row("injection every other column", on("injection", calls.sparse_elements), ("injection", "stride 1", "2]")),
]
K1_ROWS = [
    Row("lowrank 0", replace(lowrank=0), ("lowrank", "positive integer", "got 0")),
    Row("lowrank float", replace(lowrank=64.0), ("lowrank", "positive integer", "64.0")),
    Row("no room for inject rows", replace(lowrank=78), ("lowrank", "at most n_pad - HC = 76", "78")),
    Row("lowrank above n_pad", replace(lowrank=96), ("lowrank", "n_pad = 80", "96")),
    Row("n_pad untileable", replace(w_dn_merged=calls.ones(84, K)), ("w_dn_merged", "multiple of 16", "84 rows")),
    Row("split_k 0", replace(split_k=0), ("split_k", '"auto"', "positive integer", "got 0")),
    Row("split_k text", replace(split_k="4"), ("split_k", '"auto"', "'4'")),
    Row("stages 1", replace(stages=1, split_k=1), ("stages", "at least 2", "got 1")),
    Row("stages float", replace(stages=2.5), ("stages", "at least 2", "2.5")),
    Row("stages with split-K", replace(stages=3, split_k=4), ("stages", "2 with split_k above 1", "3")),
    Row("block_m", replace(block_m=48), ("block_m", "16", "128", "48")),
    Row("sk_block_m", replace(sk_block_m=48, split_k=4), ("sk_block_m", "16", "128", "48")),
    Row("dn_block_m", replace(dn_block_m=48, split_k=1), ("dn_block_m", "16", "128", "48")),
    Row("dn_block_m and stages", replace(dn_block_m=48, stages=2, split_k="auto"), ("dn_block_m", "16", "128", "48")),
    Row("sk_block_m that is not read", replace(sk_block_m=-1, split_k=1), ("sk_block_m", "positive integer", "-1")),
    Row("hint 0", replace(block_k=0), ("block_k", "positive integer", "0")),
    Row("use_tuned", replace(use_tuned=1), ("use_tuned", "True or False")),
    Row("gemm_pad below M", replace(gemm_pad=2), ("gemm_pad", "at least M=", "2")),
    Row("gemm_pad 0", replace(gemm_pad=0), ("gemm_pad", "positive integer", "0")),
    Row("r2_out rows", on("r2_out", lambda t: t[:2]), ("r2_out", "[M, HC*HS]", "[2, 2048]")),
    Row("out columns of lora only", replace(out=calls.ones(32, R)), ("out", "[M, n_pad]")),
    Row("rrms_out bf16", on("rrms_out", lambda t: t.bfloat16()), ("rrms_out", "float32", "bfloat16")),
    Row("r2_out is residual", lambda c: {"r2_out": c["residual"]}, ("r2_out", "disjoint from residual")),
    *(
        Row(f"{a} overlaps {b}", overlapping(a, b), (b if b.endswith("out") else a, "disjoint"))
        for a, b in (("r2_out", "block_output"), ("out", "w_dn_merged"), ("rrms_out", "injection"), ("r2_out", "out"))
    ),
]
K2_ROWS = [
    Row("M tail", lambda c: {n: c[n][:20] for n in ("lora", "r2", "rrms", "block_input")}, ("lora", "16", "20 rows")),
    Row("lora rows", on("lora", lambda t: t[:16]), ("lora", "[M, r]", "[16, 64]")),
    Row("lora columns", on("lora", lambda t: t[:, :60]), ("lora", "rank r", "r=60")),
    Row("r2 untileable", replace(r2=calls.ones(32, K - 8)), ("r2", "512", str(K - 8))),
    Row("rrms columns", on("rrms", lambda t: t[:, :2]), ("rrms", "[M, HC]", "[32, 2]")),
    Row("w_up rows", on("w_up", lambda t: t[:-8]), ("w_up", "[HC*HS, r]")),
    Row("w_up columns of a strided weight", on("w_up", lambda t: calls.ones(K, 2 * R)[:, :R]), ("w_up", "contiguous")),
    Row("block_m", replace(block_m=48), ("block_m", "128", "48")),
    Row("block_m that does not divide", replace(block_m=64), ("lora", "64", "32 rows")),
    Row("block_input rows", on("block_input", lambda t: t[:16]), ("block_input", "[M, HS]", "[16, 512]")),
    Row("block_input overlaps r2", overlapping("block_input", "r2"), ("block_input", "disjoint from r2")),
    Row("block_input overlaps w_up", overlapping("block_input", "w_up"), ("block_input", "disjoint from w_up")),
]
MIXED = [*NUMBERS, *NORMS, *STREAMS, *SHAPES, *PROJECTIONS]
ROWS: dict[str, list[Row]] = {
    "combine_and_mix": [*tensor_rows("combine_and_mix"), *MIXED, *PENDING],
    "mix": [*tensor_rows("mix"), *MIXED],
    "k1": [*tensor_rows("k1"), *NUMBERS, *NORMS, *STREAMS, *SHAPES, *PENDING, *K1_ROWS],
    "k2": [*tensor_rows("k2"), *NUMBERS, *STREAMS, *K2_ROWS],
}
CASES = [
    pytest.param(entry, make, row, id=f"{name}-{row.name}")
    for name, (entry, make) in LEGAL.items()
    for row in ROWS[entry]
]


@pytest.mark.parametrize(("entry", "make", "row"), CASES)
def test_a_broken_call_raises_and_leaves_everything_alone(
    entry: str, make: Callable[[], Call], row: Row, no_launch: NoLaunch
) -> None:
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


@pytest.mark.parametrize("name", LEGAL)
def test_the_legal_calls_launch(name: str, no_launch: NoLaunch) -> None:
    entry, make = LEGAL[name]
    FUNCTIONS[entry](**make())
    skinny, k2 = ["k1_skinny"], ["k2_up_gate_mix"]
    split = ["k1_combine_norm", "k1_split_k", "k1_reduce"]
    expected = {
        "combine_and_mix skinny": skinny + k2,
        "combine_and_mix tiled": split + k2,
        "mix skinny": skinny + k2,
        "mix tiled": ["k1_fused", "k1_reduce", *k2],
        "k1 skinny": skinny,
        "k1 tiled": ["k1_fused", "k1_reduce"],
        "k1 unfolded": split,
        "k1 decoupled": ["k1_combine_norm", "k1_decoupled"],
        "k2": k2,
    }
    assert no_launch.kernels == expected[name]


@pytest.mark.parametrize("name", LEGAL)
def test_an_unknown_arch_stops_the_call(name: str, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: "gfx90a")
    entry, make = LEGAL[name]
    with pytest.raises(NotImplementedError) as caught:
        FUNCTIONS[entry](**make())
    for word in ("arch", "gfx90a", "gfx942", "gfx950", "emulator"):
        assert word in str(caught.value)
    assert not no_launch.compiled


@pytest.mark.parametrize("name", LEGAL)
def test_cpu_tensors_without_the_emulator(name: str, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    entry, make = LEGAL[name]
    with pytest.raises(NotImplementedError, match="FLYDSL_COMPILE_BACKEND=emulator"):
        FUNCTIONS[entry](**make())
    assert not no_launch.compiled


EMPTY: dict[str, tuple[Callable[[], Call], list[tuple[int, ...]]]] = {
    "combine_and_mix": (lambda: calls.combine_and_mix(0), [(0, K), (0, HS), (0, HC)]),
    "mix": (lambda: calls.mix(0, fold_w=False), [(0, K), (0, HS), (0, HC)]),
    "k1": (lambda: calls.k1(0, buffers=False), [(0, K), (0, N_PAD)]),
    "k2": (lambda: calls.k2(0, buffers=False), [(0, HS)]),
}


@pytest.mark.parametrize("entry", EMPTY)
def test_no_rows_no_launch(entry: str, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND")
    make, shapes = EMPTY[entry]
    result = FUNCTIONS[entry](**make())
    results = result if isinstance(result, tuple) else (result,)
    assert [tuple(tensor.shape) for tensor in results] == shapes
    assert not no_launch.compiled


@pytest.mark.parametrize("entry", ["k1", "k2"])
def test_no_rows_with_buffers(entry: str, no_launch: NoLaunch) -> None:
    FUNCTIONS[entry](**{"k1": calls.k1, "k2": calls.k2}[entry](0))
    assert not no_launch.compiled


# -- direct K1: rows, depth and splits ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("m", "gemm_pad", "accepted"),
    [(100, None, False), (100, 128, True), (100, 112, True), (100, 104, False), (224, None, True), (16, None, True),
     (9, None, False), (9, 16, True)],
)  # fmt: skip
@pytest.mark.parametrize("split_k", ["auto", 1, 4])
@pytest.mark.parametrize("fold_w", [False, True])
def test_rows_that_no_tile_divides_need_gemm_pad(
    m: int, gemm_pad: int | None, accepted: bool, split_k: Any, fold_w: bool, no_launch: NoLaunch
) -> None:
    call = calls.k1(m, fold_w, gemm_pad=gemm_pad, split_k=split_k)
    if accepted:
        r2, packed = FUNCTIONS["k1"](**call)
        assert (r2.shape[0], packed.shape[0]) == (m, m)
        assert no_launch.launches
        return
    with pytest.raises(ValueError, match=rf"gemm_pad must be a multiple of 16 of at least M={m}.*128, 64, 32, 16"):
        FUNCTIONS["k1"](**call)
    assert not no_launch.compiled


@pytest.mark.parametrize("changes", [{"fold_w": False}, {"split_k": 4}, {"split_k": 1}, {"stages": 2}, {"block_m": 16}])
def test_few_rows_on_a_tiled_path_need_gemm_pad(changes: Call, no_launch: NoLaunch) -> None:
    with pytest.raises(ValueError, match="gemm_pad"):
        FUNCTIONS["k1"](**calls.k1(3) | changes)
    FUNCTIONS["k1"](**calls.k1(3, gemm_pad=16) | changes)
    assert "k1_skinny" not in no_launch.kernels


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_stages_go_as_deep_as_lds_and_vmcnt_allow(
    arch: str, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: arch)
    deepest = {"gfx942": 8, "gfx950": 32}[arch]
    for stages in range(2, deepest + 1):
        FUNCTIONS["k1"](**calls.k1(split_k=1, stages=stages))
    plans = [plan for kernel, plan, _ in no_launch.compiled if kernel.endswith("k1_decoupled")]
    assert [plan.stages for plan in plans] == list(range(2, deepest + 1))
    launched = len(no_launch.launches)
    for stages in (deepest + 1, 1000):
        with pytest.raises(ValueError, match=rf"stages must be 2 to {deepest} .* on {arch} .*LDS.*vmcnt.*, got"):
            FUNCTIONS["k1"](**calls.k1(split_k=1, stages=stages))
    assert len(no_launch.launches) == launched


@pytest.mark.parametrize("split_k", [3, 5, 7, 64])
def test_split_k_that_cannot_be_tiled(split_k: int, no_launch: NoLaunch) -> None:
    with pytest.raises(ValueError, match=rf"split_k must be a divisor of HC=4.*got {split_k}"):
        FUNCTIONS["k1"](**calls.k1(split_k=split_k))
    assert not no_launch.compiled


def test_n_pad_8_is_for_the_skinny_path(no_launch: NoLaunch) -> None:
    weight = {"w_dn_merged": calls.ones(8, K), "lowrank": 4}
    FUNCTIONS["k1"](**calls.k1(8, buffers=False) | weight)
    assert no_launch.kernels == ["k1_skinny"]
    for call in (calls.k1(16, buffers=False), calls.k1(8, False, buffers=False, gemm_pad=16)):
        with pytest.raises(ValueError, match="w_dn_merged must be of n_pad rows, a multiple of 16"):
            FUNCTIONS["k1"](**call | weight)
    with pytest.raises(ValueError, match="lowrank must be at most n_pad - HC = 4"):
        FUNCTIONS["k1"](**calls.k1(8, buffers=False) | weight | {"lowrank": 5})


@pytest.mark.parametrize(("arch", "n_pad"), [("gfx942", 2048), ("gfx950", 4096)])
def test_n_pad_that_no_split_k_tile_fits(
    arch: str, n_pad: int, no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hcgr.arch.configured", lambda: arch)
    call = calls.k1(buffers=False) | {"w_dn_merged": calls.ones(n_pad, K), "lowrank": n_pad - 4, "split_k": 4}
    with pytest.raises(ValueError, match=f"w_dn_merged must be of fewer rows.* on {arch}.*{n_pad} rows"):
        FUNCTIONS["k1"](**call)
    assert not no_launch.compiled


# -- what the contract answers without a launch ------------------------------------------------------------

PROBLEMS: dict[str, Callable[..., Iterator[Any]]] = {
    "combine_and_mix": contract.combine_and_mix_problems,
    "mix": contract.mix_problems,
    "k1": contract.k1_problems,
    "k2": contract.k2_problems,
}


def asked(entry: str, call: Call, **options: Any) -> list[Any]:
    """The contract's answer to a call of the public function."""
    if entry == "k1":
        names = ("split_k", "stages", "block_m", "use_tuned")
        given = {n: call.pop(n) for n in names if n in call}
        request = choose.Request(
            given.get("split_k", "auto"), given.get("stages"), given.get("block_m"), given.get("use_tuned", True)
        )
        options["request"] = request
    return list(PROBLEMS[entry](**call, **options))


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", None])
@pytest.mark.parametrize("name", LEGAL)
def test_legal_calls_have_no_problem(name: str, arch: str | None) -> None:
    entry, make = LEGAL[name]
    assert asked(entry, make(), arch=arch) == []


@pytest.mark.parametrize("name", LEGAL)
def test_arch_is_part_of_the_contract(name: str) -> None:
    entry, make = LEGAL[name]
    (problem,) = asked(entry, make(), arch="gfx90a")
    assert problem.error is NotImplementedError
    assert problem.argument == "arch"


def test_depth_is_part_of_the_contract() -> None:
    request = choose.Request(1, 20)
    call = calls.k1()
    assert [p.argument for p in contract.k1_problems(**call, request=request, arch="gfx942")] == ["stages"]
    assert not list(contract.k1_problems(**call, request=request, arch="gfx950"))
    assert not list(contract.k1_problems(**call, request=request))


@pytest.mark.parametrize("entry", TENSORS)
def test_two_gpus(entry: str) -> None:
    """Devices that this machine need not have: fake tensors on two GPUs, one argument at a time."""
    make = {"combine_and_mix": calls.combine_and_mix, "mix": calls.mix, "k1": calls.k1, "k2": calls.k2}[entry]
    reference = "r2" if entry == "k2" else "residual"
    legal = make()
    for stray in TENSORS[entry]:
        with FakeTensorMode():
            call = {
                name: torch.empty_strided(
                    value.shape, value.stride(), dtype=value.dtype, device="cuda:1" if name == stray else "cuda:0"
                )
                if isinstance(value, torch.Tensor)
                else value
                for name, value in legal.items()
            }
            problems = asked(entry, call, addresses=False)
        if stray == reference:
            assert problems
            assert all("cuda:1" in str(problem) for problem in problems)
        else:
            expected = f"{stray} must be on cuda:0, the device of {reference}, got cuda:1"
            assert [str(problem) for problem in problems] == [expected]


ACCEPTED: dict[str, tuple[str, Change]] = {
    "norm full": ("combine_and_mix", replace(norm_weight=calls.ones(K))),
    "norm float32": ("combine_and_mix", replace(norm_weight=calls.ones(HS, dtype=torch.float32))),
    "norm float32 full": ("mix", replace(norm_weight=calls.ones(K, dtype=torch.float32))),
    "residual of padded rows": ("combine_and_mix", on("residual", lambda t: calls.padded(t, 8))),
    "residual expanded": ("mix", on("residual", lambda t: t[:1].expand(3, -1))),
    "injection in packed": ("combine_and_mix", on("injection", lambda t: calls.padded(t, 332))),
    "injection at an odd offset": (
        "combine_and_mix",
        on("injection", lambda t: calls.shifted(calls.padded(t, 1), 1)),
    ),
    "no inject rows": ("combine_and_mix", replace(w_inject=None, w_down_merged=calls.ones(R, K))),
    "nothing merged": ("mix", replace(w_down_merged=None)),
    "slices of one weight": (
        "combine_and_mix",
        lambda c: {"w_down": c["w_down_merged"][:R], "w_inject": c["w_down_merged"][R : R + HC]},
    ),
    "n_pad 72 on the skinny path": ("combine_and_mix", replace(w_down_merged=calls.ones(72, K))),
    "k1 without inject rows": ("k1", replace(lowrank=N_PAD)),
    "k1 one buffer": ("k1", replace(r2_out=None, out=None)),
    "k1 hints": ("k1", replace(block_k=64, m_waves=1, n_waves=4, dn_block_n=128, dn_m_waves=2, dn_n_waves=2)),
    "k1 block_m": ("k1", replace(block_m=32, split_k=1, stages=2)),
    "k1 injection strided": ("k1", on("injection", lambda t: calls.padded(t, 3))),
    "k2 lora contiguous": ("k2", on("lora", lambda t: t.contiguous())),
    "k2 r2 of padded rows": ("k2", on("r2", lambda t: calls.padded(t, 8))),
    "k2 block_m": ("k2", replace(block_m=16, block_n=64, m_waves=1, n_waves=2)),
    "k2 no buffer": ("k2", replace(block_input=None)),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_calls_that_must_be_accepted(name: str, no_launch: NoLaunch) -> None:
    entry, change = ACCEPTED[name]
    make = {"combine_and_mix": calls.combine_and_mix, "mix": calls.mix, "k1": calls.k1, "k2": calls.k2}[entry]
    call = make()
    call.update(change(call))
    FUNCTIONS[entry](**call)
    assert no_launch.launches


def test_an_expanded_row_is_no_buffer() -> None:
    """Its rows overlap each other."""
    buffer = calls.ones(1, K).expand(32, K)
    problems = list(contract.k1_problems(**calls.k1() | {"r2_out": buffer}))
    assert [problem.argument for problem in problems] == ["r2_out"]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_k2_blames_its_own_argument_for_too_many_rows(arch: str) -> None:
    """On the meta device: no memory holds so many rows."""

    def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    m = 1 << 40
    call = {
        "lora": empty(m, R), "r2": empty(m, K), "rrms": empty(m, HC, dtype=torch.float32), "norm_weight": empty(HS),
        "w_up": empty(K, R), "hc_count": HC,
    }  # fmt: skip
    (problem,) = contract.k2_problems(**call, arch=arch, addresses=False)
    assert (problem.argument, problem.given) == ("r2", f"{m} rows")
