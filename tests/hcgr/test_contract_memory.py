"""Tensors that are not what lies at their address: freed, negated, nested, quantized; and streams that are none."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import hcgr
from hcgr import contract, dispatch

from . import calls
from .calls import BF16, FUNCTIONS, HC, HS, Call, K, NoLaunch

ENTRIES: dict[str, tuple[Callable[..., Any], Callable[[], Call]]] = {
    "combine": (
        hcgr.flydsl_gr_two_stage_combine,
        lambda: calls.pending(3) | {"norm_weight": calls.ones(HS), "hc_count": HC, "out": calls.ones(3, K)},
    ),
    "combine_and_mix": (FUNCTIONS["combine_and_mix"], calls.combine_and_mix),
    "mix": (FUNCTIONS["mix"], calls.mix),
    "k1": (FUNCTIONS["k1"], calls.k1),
    "k2": (FUNCTIONS["k2"], calls.k2),
}
BUFFERS = ("out", "r2_out", "rrms_out", "block_input")
TENSORS = [
    (entry, name) for entry, (_, make) in ENTRIES.items() for name, v in make().items() if isinstance(v, torch.Tensor)
]


def refused(entry: str, changes: Call, no_launch: NoLaunch, error: type[Exception] = ValueError) -> str:
    """The message of a call that launches nothing and changes no byte."""
    function, make = ENTRIES[entry]
    call = make() | changes
    before = calls.bytes_of(call)
    with pytest.raises(error) as caught:
        function(**call)
    assert calls.bytes_of(call) == before
    assert not no_launch.launches
    assert not no_launch.compiled
    return str(caught.value)


def freed(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor whose memory is gone, as that of a sharded parameter between its uses."""
    tensor.untyped_storage().resize_(0)
    return tensor


@pytest.mark.parametrize(("entry", "name"), TENSORS)
def test_a_tensor_without_memory(entry: str, name: str, no_launch: NoLaunch) -> None:
    function, make = ENTRIES[entry]
    function(**make())  # an accepted call is remembered: this one must not be taken for it
    no_launch.launches.clear()
    no_launch.compiled.clear()
    message = refused(entry, {name: freed(make()[name])}, no_launch)
    assert message.startswith(f"{name} must be a tensor with memory, got ")
    assert "whose storage was freed" in message


@pytest.mark.parametrize("entry", ["k1", "k2"])
def test_empty_tensors_need_no_memory(entry: str, no_launch: NoLaunch) -> None:
    FUNCTIONS[entry](**{"k1": calls.k1, "k2": calls.k2}[entry](0))
    assert not no_launch.compiled


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize(("entry", "name"), [t for t in TENSORS if t[1] in BUFFERS])
def test_a_negated_buffer(entry: str, name: str, inference: bool, no_launch: NoLaunch) -> None:
    with torch.inference_mode(inference):
        message = refused(entry, {name: torch._neg_view(ENTRIES[entry][1]()[name])}, no_launch)
    assert message == f"{name} must be a buffer itself, no negated or conjugated view of one, got a negated view"


@pytest.mark.parametrize(("entry", "name"), [t for t in TENSORS if t[1] not in BUFFERS])
def test_a_negated_input_is_read_as_what_it_stands_for(entry: str, name: str, no_launch: NoLaunch) -> None:
    function, make = ENTRIES[entry]
    call = make()
    view = torch._neg_view(call[name])
    function(**call | {name: view})
    read = [
        address.tensor
        for _, addresses in no_launch.launches
        for address in addresses
        if getattr(address, "name", "") == name
    ]
    assert no_launch.launches
    assert all(torch.equal(tensor, view) and not tensor.is_neg() for tensor in read)


@pytest.mark.parametrize("name", ["residual", "out"])
def test_a_conjugated_view(name: str, no_launch: NoLaunch) -> None:
    view = torch.zeros(3, K, dtype=torch.complex64).conj()
    message = refused("combine", {name: view}, no_launch)
    assert message.startswith(f"{name} must be of dtype bfloat16, got complex64")


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype", "ignore:.*quantize_per_tensor")
@pytest.mark.parametrize(("entry", "name"), TENSORS)
def test_nested_and_quantized_tensors(entry: str, name: str, no_launch: NoLaunch) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, K), torch.ones(3, K)])
    quantized = torch.quantize_per_tensor(torch.ones(3, K), 1.0, 0, torch.qint8)
    for tensor, kind in ((nested, "a nested one"), (quantized, "a quantized one")):
        message = refused(entry, {name: tensor}, no_launch)
        assert message == f"{name} must be a dense (strided) tensor, got {kind}"


@pytest.mark.parametrize(
    "stream",
    [
        SimpleNamespace(device="cpu", cuda_stream=3),
        SimpleNamespace(device=torch.device("cpu"), cuda_stream="3"),
        SimpleNamespace(device=torch.device("cpu")),
        torch.Stream("cpu"),
    ],
    ids=["device by name", "handle by name", "no handle", "of the CPU"],
)
@pytest.mark.parametrize("entry", ENTRIES)
def test_what_is_no_stream(entry: str, stream: Any, no_launch: NoLaunch) -> None:
    message = refused(entry, {"stream": stream}, no_launch, TypeError)
    assert message.startswith("stream must be None or a torch.cuda.Stream, got ")


def test_the_contract_itself_sees_a_negated_buffer() -> None:
    call = calls.pending(3) | {"norm_weight": calls.ones(HS), "hc_count": HC}
    buffer = torch._neg_view(torch.zeros(3, K, dtype=BF16))
    assert [problem.argument for problem in contract.combine_problems(**call, out=buffer)] == ["out"]


def test_a_stream_of_the_cpu_is_current_around_a_compiled_call(no_launch: NoLaunch) -> None:
    """Inside of it, it cannot be: no tracer sees a context variable change."""
    side = SimpleNamespace(device=torch.device("cpu"), cuda_stream=5)
    function, make = ENTRIES["combine"]
    call = make() | {"out": None}
    compiled = torch.compile(lambda: function(**call), fullgraph=True, backend="aot_eager")
    with dispatch.on_stream(side):
        compiled()
    compiled()
    assert [arguments[-1] for _, arguments in no_launch.launches] == [side, None]
