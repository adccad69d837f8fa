"""What the contracts of all entry points but COMBINE have in common: legal calls, arch, backend, devices, no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from hcgr import contract
from hcgr.plan import choose

from . import calls
from .calls import FUNCTIONS, HC, HS, LEGAL, N_PAD, Call, Change, K, NoLaunch, R, on, replace
from .contract_rows import TENSORS


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


def test_a_message_shows_the_beginning_of_what_is_long() -> None:
    with pytest.raises(TypeError) as caught:
        FUNCTIONS["k2"](**{**calls.k2(), "lora": [[0.0] * 4096] * 64})
    assert str(caught.value).startswith("lora must be a tensor, got list [[0.0, 0.0,")
    assert len(str(caught.value)) < 200
