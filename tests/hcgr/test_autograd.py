"""Callers that have gradients switched on: parameters as inputs, backward passes, buffers that autograd watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import hcgr

from . import calls
from .calls import BF16, FUNCTIONS, HC, HS, LEGAL, Call, K, NoLaunch

WRITTEN = {"k1": ("r2_out", "out", "rrms_out"), "k2": ("block_input",)}


def combine_call(m: int = 3) -> Call:
    return {**calls.pending(m), "norm_weight": calls.ones(HS), "hc_count": HC}


ENTRIES: dict[str, tuple[Callable[..., Any], Callable[[], Call]]] = {
    "combine": (hcgr.flydsl_gr_two_stage_combine, combine_call),
    "k1": (FUNCTIONS["k1"], lambda: calls.k1(buffers=False)),
    "k2": (FUNCTIONS["k2"], lambda: calls.k2(buffers=False)),
    **{name: (FUNCTIONS[entry], make) for name, (entry, make) in LEGAL.items() if entry in ("combine_and_mix", "mix")},
}


def with_gradients(call: Call) -> Call:
    """The same call, every floating-point tensor a parameter."""
    return {n: torch.nn.Parameter(v) if isinstance(v, torch.Tensor) else v for n, v in call.items()}


def new_results(call: Call, results: Any) -> list[torch.Tensor]:
    """Those results that are no argument, as mix's residual is."""
    listed = results if isinstance(results, tuple) else (results,)
    return [t for t in listed if isinstance(t, torch.Tensor) and all(t is not v for v in call.values())]


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_backward_pass_that_reaches_a_result_raises(entry: str, no_launch: NoLaunch) -> None:
    """Torch alone would warn once and leave the parameters without a gradient."""
    function, make = ENTRIES[entry]
    call = with_gradients(make())
    found = new_results(call, function(**call))
    assert found
    for result in found:
        with pytest.raises(NotImplementedError, match=r"no gradient.*torch\.no_grad\(\)"):
            (result.float() * 2).sum().backward(retain_graph=True)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("entry", ENTRIES)
def test_parameters_without_recording(entry: str, mode: Callable[[], Any], no_launch: NoLaunch) -> None:
    function, make = ENTRIES[entry]
    call = with_gradients(make())
    with mode():
        found = new_results(call, function(**call))
    assert found
    assert no_launch.launches
    assert not any(result.requires_grad for result in found)


def test_parameters_compile_to_one_graph(no_launch: NoLaunch) -> None:
    no_launch.fill = True
    call = with_gradients(calls.combine_and_mix(16))
    compiled = torch.compile(lambda: FUNCTIONS["combine_and_mix"](**call), fullgraph=True, backend="aot_eager")
    for result in compiled():
        assert (result == 1).all()


def buffers(entry: str) -> tuple[Callable[..., Any], Call, tuple[str, ...]]:
    if entry == "combine":
        return ENTRIES[entry][0], combine_call() | {"out": torch.zeros(3, K, dtype=BF16)}, ("out",)
    return FUNCTIONS[entry], {"k1": calls.k1, "k2": calls.k2}[entry](), WRITTEN[entry]


@pytest.mark.parametrize("entry", ["combine", "k1", "k2"])
def test_autograd_sees_a_buffer_change(entry: str, no_launch: NoLaunch) -> None:
    function, call, written = buffers(entry)
    before = {n: v._version for n, v in call.items() if isinstance(v, torch.Tensor)}
    scale = torch.ones(1, requires_grad=True)
    product = call[written[0]] * scale
    function(**call)
    changed = {n for n, version in before.items() if call[n]._version != version}
    assert changed == set(written)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    with torch.inference_mode():
        fresh = {n: v.clone() if n in written else v for n, v in call.items()}
        function(**fresh)


@pytest.mark.parametrize("entry", ["combine", "k1", "k2"])
def test_a_leaf_of_autograd_is_no_buffer(entry: str, no_launch: NoLaunch) -> None:
    function, call, written = buffers(entry)
    for name in written:
        tracked = call | {name: call[name].clone().requires_grad_()}
        with pytest.raises(ValueError, match=f"{name} must be a buffer without requires_grad"):
            function(**tracked)
        assert not no_launch.launches
        with torch.no_grad():
            function(**tracked)
        no_launch.launches.clear()
