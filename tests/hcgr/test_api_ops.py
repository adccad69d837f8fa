"""Operators behind the entry points: layouts, fakes, opcheck, torch.compile, streams, workspaces, counters."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hcgr
from hcgr import counters as counters_module
from hcgr import dispatch
from hcgr import k1 as k1_host

from . import calls
from .calls import BF16, FUNCTIONS, HC, HS, LEGAL, N_PAD, Call, K, NoLaunch, R

CPU = torch.device("cpu")


class Stream:
    """A CPU stream for the emulator: a device and a raw handle."""

    def __init__(self, handle: int) -> None:
        self.device, self.cuda_stream = CPU, handle


def named(launch: tuple[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Tensors of a launch by argument."""
    return {a.name: a.tensor for a in launch[1] if isinstance(a, dispatch.Address)}


def scalars(launch: tuple[str, tuple[Any, ...]]) -> list[Any]:
    """Scalars of a launch, the stream last."""
    return [a for a in launch[1] if not isinstance(a, dispatch.Address)]


# -- what is returned --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3, 40])
@pytest.mark.parametrize("fold_w", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_layouts_of_the_results(m: int, fold_w: bool, merged: bool, no_launch: NoLaunch) -> None:
    call = calls.combine_and_mix(m, fold_w, merged)
    r2, x, inj_next = FUNCTIONS["combine_and_mix"](**call)
    n_pad = N_PAD if merged else 128
    assert (r2.shape, r2.stride(), r2.dtype) == ((m, K), (K, 1), BF16)
    assert (x.shape, x.stride(), x.dtype) == ((m, HS), (HS, 1), BF16)
    assert (inj_next.shape, inj_next.stride(), inj_next.dtype) == ((m, HC), (n_pad, 1), BF16)
    assert inj_next.storage_offset() == R
    packed = inj_next._base
    assert packed is not None
    assert packed.shape == (m, n_pad)


@pytest.mark.parametrize("m", [3, 40])
def test_mix_returns_its_residual_and_the_operator_does_not(m: int, no_launch: NoLaunch) -> None:
    call = calls.mix(m)
    residual, x, _ = FUNCTIONS["mix"](**call)
    assert residual is call["residual"]
    assert x.shape == (m, HS)
    launched = named(no_launch.launches[0])
    assert launched["r2"].data_ptr() == call["residual"].data_ptr()
    arguments = [call.get(n) for n in ("residual", "norm_weight", "w_down", "w_up", "w_inject", "hc_count")]
    results = torch.ops.hcgr.mix(*arguments, 1e-6, call["w_down_merged"], True)
    inputs = {t.untyped_storage().data_ptr() for t in call.values() if isinstance(t, torch.Tensor)}
    assert not inputs & {t.untyped_storage().data_ptr() for t in results}


@pytest.mark.parametrize("entry", ["combine_and_mix", "mix"])
def test_a_final_mixer_has_no_inj_next(entry: str, no_launch: NoLaunch) -> None:
    make = {"combine_and_mix": calls.combine_and_mix, "mix": calls.mix}[entry]
    for merged in (None, calls.ones(R, K)):
        assert FUNCTIONS[entry](**make() | {"w_inject": None, "w_down_merged": merged})[2] is None
    assert [plan.live for _, plan, _ in no_launch.compiled if hasattr(plan, "live")] == [R]


def test_positional_calls_of_earlier_revisions(no_launch: NoLaunch) -> None:
    c = calls.combine_and_mix()
    weights = (c["norm_weight"], c["w_down"], c["w_up"], c["w_inject"], HC, 1e-6)
    pending = (c["residual"], c["block_output"], c["injection"])
    hcgr.flydsl_gr_two_stage_combine_and_mix(*pending, *weights, c["w_down_merged"], True, None)
    hcgr.flydsl_gr_two_stage_mix(c["residual"], *weights, c["w_down_merged"], True, None)
    k1 = calls.k1()
    buffers = (k1["r2_out"], k1["out"], k1["rrms_out"])
    tensors = [k1[n] for n in ("residual", "block_output", "injection", "norm_weight", "w_dn_merged")]
    r2, packed = hcgr.flydsl_k1_combine_norm_down(*tensors, R, HC, 1e-6, *buffers, None, 64, 1, 4, 2, "auto")
    x = hcgr.flydsl_up_gate_mix_norm(packed[:, :R], r2, k1["rrms_out"], k1["norm_weight"], c["w_up"], HC)
    assert x.shape == (32, HS)
    names = [*["k1_skinny", "k2_up_gate_mix"] * 2, "k1_combine_norm", "k1_decoupled", "k2_up_gate_mix"]
    assert no_launch.kernels == names


def test_merging_on_the_fly_gives_the_weight_that_merging_first_gives(no_launch: NoLaunch) -> None:
    call = calls.combine_and_mix(merged=False)
    for name in ("w_down", "w_inject", "norm_weight"):
        call[name] = torch.randn(call[name].shape, generator=torch.Generator().manual_seed(len(name))).to(BF16)
    FUNCTIONS["combine_and_mix"](**call)
    merged = hcgr.merge_gr_two_stage_weight(call["w_down"], call["w_inject"], HC)
    folded = hcgr.fold_norm_weight(merged, call["norm_weight"], HC)
    assert torch.equal(named(no_launch.launches[0])["weight"], folded)
    FUNCTIONS["combine_and_mix"](**call | {"fold_w": False})
    weight = next(named(launch)["weight"] for launch in no_launch.launches if launch[0] == "k1_split_k")
    assert torch.equal(weight, merged)


# -- what is launched --------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [3, 40])
def test_every_stride_reaches_the_kernels(m: int, no_launch: NoLaunch) -> None:
    call = calls.combine_and_mix(m)
    for name, extra in (("residual", 8), ("block_output", 24), ("injection", 333)):
        call[name] = calls.padded(call[name], extra)
    FUNCTIONS["combine_and_mix"](**call)
    assert scalars(no_launch.launches[0])[:4] == [m, K + 8, HS + 24, HC + 333]
    tokens, lora_stride, r2_stride, _, _ = scalars(no_launch.launches[-1])
    assert (tokens, lora_stride, r2_stride) == (m, N_PAD, K)


def test_mix_reads_a_strided_residual_in_both_kernels(no_launch: NoLaunch) -> None:
    call = calls.mix(40)
    call["residual"] = calls.padded(call["residual"], 16)
    FUNCTIONS["mix"](**call)
    assert scalars(no_launch.launches[0])[1] == K + 16
    assert scalars(no_launch.launches[-1])[2] == K + 16


def test_k2_gets_the_lora_columns_of_packed(no_launch: NoLaunch) -> None:
    _, _, inj_next = FUNCTIONS["combine_and_mix"](**calls.combine_and_mix())
    lora = named(no_launch.launches[-1])["lora"]
    assert (lora.shape, lora.stride(0)) == ((3, R), N_PAD)
    assert lora.data_ptr() == inj_next._base.data_ptr()


@pytest.mark.parametrize("name", LEGAL)
def test_the_stream_reaches_every_launch_and_is_restored(name: str, no_launch: NoLaunch) -> None:
    entry, make = LEGAL[name]
    outer, inner = Stream(1), Stream(2)
    with dispatch.on_stream(outer):
        FUNCTIONS[entry](**make(), stream=inner)
        launches = len(no_launch.launches)
        with pytest.raises(ValueError, match="hc_count"):
            FUNCTIONS[entry](**make() | {"hc_count": 3}, stream=inner)
        FUNCTIONS[entry](**make())
    FUNCTIONS[entry](**make())
    streams = [scalars(launch)[-1] for launch in no_launch.launches]
    assert streams == [inner] * launches + [outer] * launches + [None] * launches


def test_skinny_counters_are_those_of_the_stream(no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = counters_module.CounterCache()
    monkeypatch.setattr(k1_host, "counters", cache)
    first, second = Stream(11), Stream(12)
    for stream in (first, second, first):
        FUNCTIONS["combine_and_mix"](**calls.combine_and_mix(), stream=stream)
    sets = [named(launch)["counters"].data_ptr() for launch in no_launch.launches if launch[0] == "k1_skinny"]
    assert sets[0] == sets[2] != sets[1]
    assert {(key.n_pad, key.token_groups, key.hc, key.stream) for key in cache.held()} == {
        (N_PAD, 1, HC, 11),
        (N_PAD, 1, HC, 12),
    }


def test_a_failed_skinny_launch_drops_its_counters(no_launch: NoLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = counters_module.CounterCache()
    monkeypatch.setattr(k1_host, "counters", cache)

    def failing(*_: Any) -> Any:
        def handle(*_arguments: Any) -> None:
            raise RuntimeError("lost device")

        return handle

    monkeypatch.setattr(dispatch, "_compile", failing)
    with pytest.raises(RuntimeError, match="lost device"):
        FUNCTIONS["combine_and_mix"](**calls.combine_and_mix())
    assert not cache.held()


#: What a launch may know that the caller did not pass or get back, by path.
WORKSPACES = {
    "combine_and_mix skinny": {"partials", "rrms"},
    "combine_and_mix tiled": {"out", "partials", "rrms", "squares"},
    "mix tiled": {"out", "partials", "rrms", "squares"},
    "k1 decoupled": set(),
}


@pytest.mark.parametrize("name", WORKSPACES)
def test_workspaces_belong_to_one_call(name: str, no_launch: NoLaunch) -> None:
    """Nothing keeps a workspace after the call, and two calls whose results live share no memory."""
    entry, make = LEGAL[name]
    held: list[Any] = []
    alive: list[weakref.ref[torch.Tensor]] = []
    found: list[set[int]] = []
    for _ in range(2):
        no_launch.launches.clear()
        call = make()
        result = FUNCTIONS[entry](**call)
        known = {t.untyped_storage().data_ptr() for t in (*call.values(), *result) if isinstance(t, torch.Tensor)}
        work = {
            argument: tensor
            for launch in no_launch.launches
            for argument, tensor in named(launch).items()
            if tensor.untyped_storage().data_ptr() not in known and argument != "counters"
        }
        assert set(work) == WORKSPACES[name]
        alive += [weakref.ref(tensor) for tensor in work.values()]
        found.append({tensor.untyped_storage().data_ptr() for tensor in work.values()})
        held += [call, result, list(no_launch.launches)]
    assert not found[0] & found[1]
    del work
    held.clear()
    no_launch.launches.clear()
    gc.collect()
    assert not [ref for ref in alive if ref() is not None]


def test_threads_have_streams_of_their_own(no_launch: NoLaunch) -> None:
    start, wrong = threading.Barrier(4), []

    def work(number: int) -> None:
        stream = Stream(100 + number)
        start.wait()
        for _ in range(20):
            FUNCTIONS["combine_and_mix"](**calls.combine_and_mix(1), stream=stream)
            if dispatch.current_stream(CPU) is not None:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    by_stream: dict[int, set[int]] = {}
    for launch in no_launch.launches:
        if launch[0] == "k1_skinny":
            by_stream.setdefault(scalars(launch)[-1].cuda_stream, set()).add(named(launch)["counters"].data_ptr())
    assert {stream: len(sets) for stream, sets in by_stream.items()} == dict.fromkeys(range(100, 104), 1)
    assert len(set.union(*by_stream.values())) == 4
    assert len({(kernel, plan) for kernel, plan, _ in no_launch.compiled}) == len(no_launch.compiled)


# -- operators ---------------------------------------------------------------------------------------------


def op_calls(m: int, fold_w: bool) -> dict[str, tuple[Any, tuple[Any, ...], Call]]:
    """Operator, positional and keyword arguments."""
    c, k1, k2 = calls.combine_and_mix(m, fold_w), calls.k1(m, fold_w), calls.k2(m)
    weights = (c["norm_weight"], c["w_down"], c["w_up"], c["w_inject"], HC, 1e-6)
    pending = (c["residual"], c["block_output"], c["injection"])
    down = (*pending, c["norm_weight"], k1["w_dn_merged"], R, HC, 1e-6, fold_w, -(-m // 16) * 16 or None, 0)
    buffers = {name: k1[name] for name in ("r2_out", "out", "rrms_out")}
    up = tuple(k2[n] for n in ("lora", "r2", "rrms", "norm_weight", "w_up", "hc_count"))
    ops = torch.ops.hcgr
    found: dict[str, tuple[Any, tuple[Any, ...], Call]] = {
        "combine_and_mix": (ops.combine_and_mix.default, (*pending, *weights, c["w_down_merged"], fold_w), {}),
        "merging": (ops.combine_and_mix.default, (*pending, *weights, None, fold_w), {}),
        "mix": (ops.mix.default, (c["residual"], *weights, c["w_down_merged"], fold_w), {}),
        "k1": (ops.k1.default, (*down, None, None, True), {}),
        "k1_into": (ops.k1_into.default, (*down, None, None, True), buffers),
    }
    if m % 16 == 0:
        found["k2"] = (ops.k2.default, (*up, None, True), {})
        found["k2_into"] = (ops.k2_into.default, (*up, None, True), {"block_input": k2["block_input"]})
    return found


@pytest.mark.parametrize(("m", "fold_w"), [(0, True), (1, True), (3, False), (16, True)])
@pytest.mark.parametrize("name", ["combine_and_mix", "merging", "mix", "k1", "k1_into", "k2", "k2_into"])
def test_opcheck(name: str, m: int, fold_w: bool, no_launch: NoLaunch) -> None:
    no_launch.fill = True
    found = op_calls(m, fold_w)
    if name in found:
        operator, arguments, options = found[name]
        assert set(torch.library.opcheck(operator, arguments, options).values()) == {"SUCCESS"}
    else:
        assert m % 16, "only the direct K2, and only for a row tail, has no call"


def test_fakes_reproduce_the_stride() -> None:
    """Tensors on a GPU that need not exist, and an n_pad that only the weight tells."""
    for entry, make in (("combine_and_mix", calls.combine_and_mix), ("mix", calls.mix)):
        legal = make(3, True)
        with FakeTensorMode():
            call = {
                name: torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cuda:1")
                if isinstance(value, torch.Tensor)
                else value
                for name, value in legal.items()
            }
            _, x, inj_next = FUNCTIONS[entry](**call)
            assert (inj_next.shape, inj_next.stride()) == ((3, HC), (N_PAD, 1))
            assert (x.shape, x.device) == ((3, HS), torch.device("cuda", 1))
            _, _, merged_here = FUNCTIONS[entry](**call | {"w_down_merged": None})
            assert merged_here.stride() == (128, 1)


def test_fakes_keep_the_contract() -> None:
    with FakeTensorMode(), pytest.raises(ValueError, match="w_up must be contiguous"):
        FUNCTIONS["mix"](**calls.mix() | {"w_up": torch.empty(R, K, dtype=BF16).t()})


def step(function: Callable[..., Any], call: Call) -> Callable[..., Any]:
    """A graph around one entry point: the pending block's output is made in it, and the results are used."""
    fixed = {n: v for n, v in call.items() if n not in ("residual", "block_output", "injection", "lora", "r2", "rrms")}

    def run(*tensors: torch.Tensor, names: tuple[str, ...]) -> Any:
        result = function(**dict(zip(names, (t * 1 for t in tensors), strict=True)), **fixed)
        results = result if isinstance(result, tuple) else (result,)
        return [None if t is None else t + 1 for t in results]

    return run


@pytest.mark.parametrize("name", ["combine_and_mix skinny", "combine_and_mix tiled", "mix tiled", "k1 tiled", "k2"])
def test_compile_traces_the_whole_graph(name: str, no_launch: NoLaunch) -> None:
    """One graph for token counts on both sides of the skinny limit; buffers are left out."""
    no_launch.fill = True
    entry, _ = LEGAL[name]
    make = {
        "combine_and_mix": lambda m: calls.combine_and_mix(m, "skinny" in name),
        "mix": calls.mix,
        "k1": lambda m: calls.k1(m, buffers=False),
        "k2": lambda m: calls.k2(m, buffers=False),
    }[entry]
    names = tuple(n for n in make(16) if n in ("residual", "block_output", "injection", "lora", "r2", "rrms"))
    eager = step(FUNCTIONS[entry], make(16))
    compiled = torch.compile(eager, fullgraph=True, dynamic=True, backend="aot_eager")
    for m in (16, 48, 32):
        tensors = [make(m)[n] for n in names]
        for got, want in zip(compiled(*tensors, names=names), eager(*tensors, names=names), strict=True):
            assert torch.equal(got, want)
            assert got.shape[0] == m


@pytest.mark.parametrize("entry", ["k1", "k2"])
def test_compile_with_the_callers_buffers(entry: str, no_launch: NoLaunch) -> None:
    no_launch.fill = True
    call = {"k1": calls.k1, "k2": calls.k2}[entry]()
    buffers = [n for n in ("r2_out", "out", "rrms_out", "block_input") if n in call]
    for name in buffers:
        call[name].fill_(7)

    def run() -> Any:
        FUNCTIONS[entry](**call)
        return [call[name] + 1 for name in buffers]

    for result in torch.compile(run, fullgraph=True, backend="aot_eager")():
        assert (result == 2).all()
    assert all((call[name] == 1).all() for name in buffers)


def test_a_compiled_layer_chain_feeds_packed_to_the_next_layer(no_launch: NoLaunch) -> None:
    no_launch.fill = True
    c = calls.combine_and_mix(3)
    weights = [c[n] for n in ("norm_weight", "w_down", "w_up", "w_inject", "hc_count")]
    rest = (1e-6, c["w_down_merged"], True)

    def model(residual: torch.Tensor) -> Any:
        residual, x, injection = hcgr.flydsl_gr_two_stage_mix(residual, *weights, *rest)
        for _ in range(3):
            r2, y, inj = hcgr.flydsl_gr_two_stage_combine_and_mix(residual, x * 2, injection, *weights, *rest)
            residual, x, injection = r2, y, inj
        return hcgr.flydsl_gr_two_stage_combine(residual, x, injection, c["norm_weight"], HC)

    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert compiled(c["residual"]).shape == (3, K)
    skinny = [scalars(launch)[3] for launch in no_launch.launches if launch[0] == "k1_skinny"]
    assert skinny == [K, N_PAD, N_PAD, N_PAD]
