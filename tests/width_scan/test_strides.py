"""What the strides beside one, and its uses, tell of how large it is. Written for these tests."""

from __future__ import annotations

import pytest

from validation.width_scan.innermost import families, innermost
from validation.width_scan.modules import parse
from validation.width_scan.scan import scan_source

HEAD = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef kernel({}, BLOCK: tl.constexpr):\n"


def kernel(parameters: str, body: str) -> str:
    return HEAD.format(parameters) + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


def expressions(text: str) -> list[str]:
    return [finding.expression for finding in scan_source(text).errors]


@pytest.mark.parametrize(
    ("names", "tensors"),
    [
        ("stride_am stride_ak stride_bk stride_bn", ["stride_am stride_ak", "stride_bk stride_bn"]),
        ("stride_x_row stride_x_col stride_y_row", ["stride_x_row stride_x_col"]),
        ("q_stride_b q_stride_h n q_stride_d", ["q_stride_b q_stride_h"]),
        ("stride_p_token stride_p_expert stride_p_grad_token stride_p_grad_expert",
         ["stride_p_token stride_p_expert", "stride_p_grad_token stride_p_grad_expert"]),
        ("stride_kbs stride_kh stride_ksbs stride_ksh", ["stride_kbs stride_kh", "stride_ksbs stride_ksh"]),
        ("stride_probs_token stride_permuted_token", []),
        ("stride_m stride_n", []),
    ],
)  # fmt: skip
def test_strides_of_one_tensor(names: str, tensors: list[str]) -> None:
    assert [" ".join(family) for family in families(names.split())] == tensors


ROWS = "row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\ncols = tl.arange(0, BLOCK)\n"


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("x + row[:, None] * stride_xt + cols[None, :] * stride_xe", True),
        ("x + row * stride_xe", True),
        ("x + tl.program_id(1) * stride_xt + row * stride_xe", True),
        ("x + tl.program_id(1) * stride_xt + row[:, None] * stride_xe + cols[None, :]", False),
        ("x + (row * stride_xe)[:, None] + cols[None, :]", False),
        ("x + row", False),
    ],
)
def test_the_innermost_stride_leaves_no_index_unmultiplied(address: str, found: bool) -> None:
    module = parse(kernel("x, stride_xt, stride_xe", f"{ROWS}tl.load({address})"), "source")
    function = module.functions[-1]
    assert innermost(function, [["stride_xt", "stride_xe"]]) == (frozenset({"stride_xe"}) if found else frozenset())


def test_a_position_times_an_innermost_stride_fits() -> None:
    parameters = "x, stride_xh, stride_xbs"
    body = "at = tl.load(x) + tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)\n"
    assert (
        expressions(kernel(parameters, f"{body}tl.store(x + tl.program_id(1) * stride_xh + at * stride_xbs, 0.0)"))
        == []
    )
    rest = "tl.store(x + tl.program_id(1) * stride_xh + at[:, None] * stride_xbs + tl.arange(0, BLOCK)[None, :], 0.0)"
    assert expressions(kernel(parameters, body + rest)) == ["at[:, None] * stride_xbs"]


def test_an_operand_may_be_passed_transposed() -> None:
    """The last stride of a matrix is that of its rows, where its transpose is what was stored."""
    body = "k = (tl.program_id(1) * 4096 + tl.arange(0, BLOCK)) * 64\n"
    body += "tl.load(a + tl.program_id(0).to(tl.int64) * stride_am + k * stride_ak)"
    assert expressions(kernel("a, stride_am, stride_ak", body)) == ["k * stride_ak"]


def test_a_weight_of_experts_has_rows_of_a_hidden_size() -> None:
    """The parameter is a constant of the compiler's here, and no number that it can see."""
    body = "e = tl.program_id(0).to(tl.int64)\nn = tl.arange(0, BLOCK) + tl.program_id(1) * BLOCK\n"
    load = (
        "tl.load(w + e * stride_wE + n[:, None] * stride_wI + tl.arange(0, BLOCK)[None, :] * stride_wJ, "
        "mask=n[:, None] < I_dim)"
    )
    parameters = "w, I_dim, stride_wE: tl.constexpr, stride_wI: tl.constexpr, stride_wJ: tl.constexpr"
    assert expressions(kernel(parameters, body + load)) == []
    assert expressions(
        kernel(parameters.replace("stride_wE", "stride_wT"), body + load.replace("stride_wE", "stride_wT"))
    ) == ["n[:, None] * stride_wI"]


def test_a_row_of_a_table_of_experts_is_short() -> None:
    body = "row = tl.program_id(0)\ntl.load(m + row * stride_map_token + tl.arange(0, BLOCK) * stride_map_expert)"
    assert expressions(kernel("m, stride_map_token, stride_map_expert", body)) == []
    other = body.replace("expert", "hidden")
    assert expressions(kernel("m, stride_map_token, stride_map_hidden", other)) == ["row * stride_map_token"]


@pytest.mark.parametrize(("order", "found"), [("stride_kh, stride_kn", 1), ("stride_kn, stride_kh", 0)])
def test_heads_inside_of_a_token_lie_close_together(order: str, found: int) -> None:
    body = "head = tl.program_id(1)\ntl.load(k + head * stride_kh + tl.arange(0, BLOCK))"
    assert len(expressions(kernel(f"k, {order}", body))) == found


@pytest.mark.parametrize(("rest", "found"), [("", 0), (" + tl.arange(0, BLOCK)[:, None] * stride_bm", 1)])
def test_beside_columns_alone_a_stride_is_that_of_a_row(rest: str, found: int) -> None:
    parameters = "b, stride_be, stride_bn" if not rest else "b, stride_be, stride_bm, stride_bn"
    body = f"expert = tl.load(b)\ntl.load(b + expert * stride_be{rest} + tl.arange(0, BLOCK) * stride_bn)"
    assert len(expressions(kernel(parameters, body))) == found
