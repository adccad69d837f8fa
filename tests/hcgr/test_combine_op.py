"""The COMBINE operator: values through the launcher's calling convention, layouts, fakes, opcheck."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import hcgr
from hcgr import contract

from .standin import StandIn, combine_reference, make_inputs

BF16 = torch.bfloat16


def expected(call: dict[str, Any]) -> torch.Tensor:
    return combine_reference(call["residual"], call["block_output"], call["injection"], call["hc_count"])


@pytest.mark.parametrize("hc", [2, 4, 8])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_values(m: int, hc: int, standin: StandIn) -> None:
    call = {**make_inputs(m, hc, 1024), "hc_count": hc}
    r2 = hcgr.flydsl_gr_two_stage_combine(**call)
    assert torch.equal(r2, expected(call))
    assert r2.is_contiguous()


def test_positional_call_of_earlier_revisions(standin: StandIn) -> None:
    inputs = make_inputs(3)
    arguments: list[Any] = [*inputs.values(), 4, 1e-6]
    r2 = hcgr.flydsl_gr_two_stage_combine(*arguments)
    assert torch.equal(r2, expected({**inputs, "hc_count": 4}))


def test_each_row_stride_is_honoured_for_itself(standin: StandIn) -> None:
    """Three inputs, three different strides, and the injection inside a K1 output of n_pad = 336 columns."""
    inputs = make_inputs(5)
    residual = torch.zeros(5, 2048 + 8, dtype=BF16)[:, :2048].copy_(inputs["residual"])
    block_output = torch.zeros(5, 512 + 24, dtype=BF16)[:, :512].copy_(inputs["block_output"])
    packed = torch.zeros(5, 336, dtype=BF16)
    packed[:, 320:324] = inputs["injection"]
    r2 = hcgr.flydsl_gr_two_stage_combine(residual, block_output, packed[:, 320:324], inputs["norm_weight"], 4)
    assert torch.equal(r2, expected({**inputs, "hc_count": 4}))
    assert standin.calls[0][5:8] == (2056, 536, 336)


def test_expanded_rows(standin: StandIn) -> None:
    inputs = make_inputs(5)
    call = {n: t[:1].expand(5, -1) if t.dim() == 2 else t for n, t in inputs.items()} | {"hc_count": 4}
    assert torch.equal(hcgr.flydsl_gr_two_stage_combine(**call), expected(call))


def test_out_is_filled_and_returned(standin: StandIn) -> None:
    call = {**make_inputs(3), "hc_count": 4}
    out = torch.full((3, 2048), float("nan"), dtype=BF16)
    assert hcgr.flydsl_gr_two_stage_combine(**call, out=out) is out
    assert torch.equal(out, expected(call))


@pytest.mark.parametrize("with_out", [False, True])
def test_no_rows_no_launch(with_out: bool, standin: StandIn) -> None:
    out = torch.empty(0, 2048, dtype=BF16) if with_out else None
    r2 = hcgr.flydsl_gr_two_stage_combine(**make_inputs(0), hc_count=4, out=out)
    assert r2.shape == (0, 2048)
    assert r2.dtype is BF16
    assert not standin.compiled


def test_no_rows_needs_no_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLYDSL_COMPILE_BACKEND", raising=False)
    assert hcgr.flydsl_gr_two_stage_combine(**make_inputs(0), hc_count=4).shape == (0, 2048)


def test_the_result_never_shares_memory_with_an_input(standin: StandIn) -> None:
    inputs = make_inputs(3)
    r2 = hcgr.flydsl_gr_two_stage_combine(**inputs, hc_count=4)
    storages = {t.untyped_storage().data_ptr() for t in inputs.values()}
    assert r2.untyped_storage().data_ptr() not in storages


def test_inputs_are_left_alone(standin: StandIn) -> None:
    inputs = make_inputs(3)
    before = {n: t.clone() for n, t in inputs.items()}
    hcgr.flydsl_gr_two_stage_combine(**inputs, hc_count=4)
    assert all(torch.equal(inputs[n], before[n]) for n in inputs)


def fake_inputs(device: str) -> dict[str, Any]:
    """Inputs on a GPU that need not exist; call it in a ``FakeTensorMode``."""
    return {n: torch.empty(t.shape, dtype=t.dtype, device=device) for n, t in make_inputs(3).items()}


def test_fake_kernel_gives_shape_dtype_and_strides() -> None:
    with FakeTensorMode():
        inputs = fake_inputs("cuda:1")
        inputs["residual"] = torch.empty_strided((3, 2048), (2056, 1), dtype=BF16, device="cuda:1")
        r2 = hcgr.flydsl_gr_two_stage_combine(**inputs, hc_count=4)
    assert (r2.shape, r2.stride(), r2.dtype, r2.device) == (
        (3, 2048),
        (2048, 1),
        BF16,
        torch.device("cuda", 1),
    )


def test_fake_kernel_keeps_the_contract() -> None:
    with FakeTensorMode():
        inputs = fake_inputs("cuda:0")
        inputs["injection"] = torch.empty(4, 3, dtype=BF16, device="cuda:0").t()
        with pytest.raises(ValueError, match="injection must be contiguous in its last dimension"):
            hcgr.flydsl_gr_two_stage_combine(**inputs, hc_count=4)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_opcheck(m: int, standin: StandIn) -> None:
    arguments = (*make_inputs(m).values(), 4, 1e-6)
    torch.library.opcheck(torch.ops.hcgr.combine.default, arguments)
    out = torch.empty(m, 2048, dtype=BF16)
    torch.library.opcheck(torch.ops.hcgr.combine_into.default, arguments, {"out": out})


def test_compiled_graph_with_a_symbolic_token_count(standin: StandIn) -> None:
    def step(residual: torch.Tensor, y: torch.Tensor, injection: torch.Tensor, norm: torch.Tensor) -> torch.Tensor:
        return hcgr.flydsl_gr_two_stage_combine(residual, y, injection, norm, 4) + 1

    compiled = torch.compile(step, fullgraph=True, dynamic=True, backend="aot_eager")
    for m in (2, 3, 7):
        inputs = make_inputs(m)
        assert torch.equal(compiled(*inputs.values()), expected({**inputs, "hc_count": 4}) + 1)


def test_the_contract_reads_metadata_only() -> None:
    """Checking a call runs no tensor operation, so its cost does not grow with the tensors."""
    inputs = make_inputs(3)
    with torch.autograd.profiler.profile() as profile:
        contract.check_combine(**inputs, hc_count=4)
    assert not [event.name for event in profile.function_events if event.name.startswith("aten::")]
