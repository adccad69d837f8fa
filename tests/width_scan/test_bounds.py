"""What assertions, early returns, guards and names bound, and what they do not. Written for these tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from validation.width_scan.limits import Role
from validation.width_scan.scan import scan_paths, scan_source
from validation.width_scan.symbols import divide, leaf, multiply, witness

HEAD = "import triton\nimport triton.language as tl\n{}\n@triton.jit\ndef kernel({}, BLOCK: tl.constexpr = 64):\n"
FLYDSL = "import flydsl.compiler as flyc\nimport flydsl.expr as fx\nfrom flydsl.expr import buffer_ops\n"


def kernel(body: str, parameters: str = "x_ptr, stride", above: str = "") -> str:
    return HEAD.format(above, parameters) + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


def expressions(text: str) -> list[str]:
    result = scan_source(text)
    assert [file.status for file in result.files] == ["scanned"]
    return [finding.expression for finding in result.errors]


ROW = "row = tl.program_id(0)\n"
LOAD = "tl.load(x_ptr + row * stride)"


@pytest.mark.parametrize("call", ["tl.assume({})", "tl.device_assert({})", 'tl.device_assert({}, "wide")', "assert {}"])
@pytest.mark.parametrize(
    ("condition", "bounded"), [("stride < 64", True), ("64 >= stride", True), ("stride > 64", False)]
)
def test_an_assertion_bounds_a_parameter(call: str, condition: str, bounded: bool) -> None:
    found = expressions(kernel(f"{call.format(condition)}\n{ROW}{LOAD}"))
    assert found == ([] if bounded else ["row * stride"])


@pytest.mark.parametrize(
    ("test", "bounded"),
    [("row >= 64", True), ("stride < 1 or row > 63", True), ("row < 64", False), ("row >= 64 and stride > 1", False)],
)
def test_what_an_early_return_leaves(test: str, bounded: bool) -> None:
    text = kernel(f"{ROW}if {test}:\n    return\n{LOAD}")
    assert expressions(text) == ([] if bounded else ["row * stride"]) or (
        test == "row < 64" and expressions(text) == []
    )


def test_an_index_below_its_bound_is_not_the_bound() -> None:
    """32,767 x 65,536 fits; 32,768 x 65,536 does not."""
    body = "row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\ntl.load(x_ptr + row * 65536, mask=row {} 32768)"
    assert expressions(kernel(body.format("<"))) == []
    assert expressions(kernel(body.format("<="))) == ["row * 65536"]


def test_a_divisor_that_is_a_factor_too_need_not_be_small() -> None:
    a, h, g = (leaf(name, Role(name, limit, 64, 1, "", "")) for name, limit in (("a", 2**20), ("h", 128), ("g", 128)))
    product = multiply(multiply(a, h), leaf("k", Role("k", 576, 128, 1, "", "")))
    assert witness(product, 2**31) is not None
    grouped = multiply(product, divide(g, divide(g, h)))  # h in a divisor, and a factor
    found = witness(grouped, 2**31)
    assert found is not None
    assert found["h"] > 1


def test_heads_that_share_a_key() -> None:
    """The head count divides, and multiplies: as large as it gets, the product overflows."""
    body = (
        "b, h = tl.program_id(1) // HV, tl.program_id(1) % HV\nfirst = b * T\n"
        "tl.load(x_ptr + (first * H + h // (HV // H)) * K + tl.arange(0, BLOCK))"
    )
    parameters = "x_ptr, T, H: tl.constexpr, HV: tl.constexpr, K: tl.constexpr"
    assert expressions(kernel(body, parameters)) == ["(first * H + h // (HV // H)) * K"]
    assert expressions(kernel(body.replace("id(1) // HV", "id(1).to(tl.int64) // HV"), parameters)) == []


VARLEN = """n = tl.program_id(1)
if PACKED:
    first = tl.load(starts + n).to(tl.int32)
    at = x_ptr + first * stride
else:
    at = x_ptr + {} * stride_n
tl.load(at + tl.arange(0, BLOCK))"""


def test_a_path_that_widens_its_own_index_says_nothing_of_the_other() -> None:
    parameters = "x_ptr, starts, stride, stride_n, PACKED: tl.constexpr"
    assert expressions(kernel(VARLEN.format("n.to(tl.int64)"), parameters)) == ["first * stride"]
    assert expressions(kernel(VARLEN.format("tl.cast(n, tl.int64)"), parameters)) == ["first * stride"]
    same = VARLEN.replace("first * stride", "n * stride").format("n.to(tl.int64)")
    assert expressions(kernel(same, parameters)) == []  # n x stride on both: the host chooses the narrow one


def test_after_such_a_branch_an_index_is_as_narrow_as_the_narrower_path() -> None:
    """Packed sequences start at a widened offset; padded ones at a product that nobody widened."""
    body = (
        "n = tl.program_id(1)\nif PACKED:\n    first = tl.load(starts + n).to(tl.int64)\nelse:\n    first = n * T\n"
        "tl.load(x_ptr + first * H * 576)"
    )
    parameters = "x_ptr, starts, T, H: tl.constexpr, PACKED: tl.constexpr"
    assert expressions(kernel(body, parameters)) == ["first * H * 576"]
    assert expressions(kernel(body.replace("n * T", "n.to(tl.int64) * T"), parameters)) == []
    guarded = body.replace("PACKED", "LONG").replace("tl.load(starts + n)", "(n * T)")
    assert expressions(kernel(guarded, parameters.replace("PACKED", "LONG"))) == []


@pytest.mark.parametrize(
    ("place", "wide"),
    [("from ..utils import language_extension as ext", True), ("from my.helpers import ext", True),
     ("import triton.language as ext", False), ("from vllm.triton_utils import tl as ext", False)],
)  # fmt: skip
def test_a_function_of_the_languages_name_from_elsewhere_is_a_wrapper(place: str, wide: bool) -> None:
    """Whoever wraps program_id does so for its type; the language itself may come through another module."""
    text = kernel(f"row = ext.program_id(0)\n{LOAD}", above=place)
    assert expressions(text) == ([] if wide else ["row * stride"])


def test_a_wrapper_at_hand_is_read(tmp_path: Path) -> None:
    wrapper = kernel("return tl.program_id(axis)", "axis").replace("def kernel", "def program_id")
    (tmp_path / "ext.py").write_text(wrapper)
    (tmp_path / "kernel.py").write_text(kernel(f"row = ext.program_id(0)\n{LOAD}", above="from . import ext"))
    assert [finding.expression for finding in scan_paths([tmp_path / "kernel.py"]).errors] == ["row * stride"]


@pytest.mark.parametrize(
    ("names", "body", "found"),
    [
        ("D, W", "n = tl.program_id(1)\ntl.load(x_ptr + n * D * W)", 0),
        ("H, D, W", "n = tl.program_id(1)\ntl.load(x_ptr + n * D * W)", 1),
        ("T, E, K", "row = tl.program_id(0)\ntl.load(x_ptr + row * K, mask=row < T)", 0),
        ("T, N, E, K", "row = tl.program_id(0)\ntl.load(x_ptr + row * K, mask=row < T)", 1),
        ("D", "i_n = tl.program_id(0)\ntl.load(x_ptr + i_n * D)", 1),
        ("T, D", "i_n = tl.program_id(0)\ntl.load(x_ptr + i_n * D)", 0),
        ("T, NT", "b = tl.program_id(0)\ntl.load(x_ptr + b * tl.cdiv(T, BLOCK) * 16)", 0),
        ("max_model_len, stride_out_b", "b = tl.program_id(1)\ntl.store(x_ptr + b * stride_out_b, 0.0)", 1),
        ("stride_out_b", "b = tl.program_id(1)\ntl.store(x_ptr + b * stride_out_b, 0.0)", 0),
        ("stride_cos_s", "at = tl.load(x_ptr)\ntl.load(x_ptr + at * stride_cos_s)", 0),
        ("SRC_RANK, n_tokens", "tl.load(x_ptr + n_tokens * SRC_RANK)", 0),
        ("ndim", "at = tl.load(x_ptr)\ntl.store(x_ptr + at * ndim, 0.0)", 0),
        ("next_n, stride_b", "b = tl.program_id(1)\ntl.store(x_ptr + (b * next_n + 1) * stride_b, 0.0)", 0),
    ],
)  # fmt: skip
def test_one_letter_means_what_the_others_say(names: str, body: str, found: int) -> None:
    assert len(expressions(kernel(body, f"x_ptr, {names}"))) == found


GUARDED = """
def build(BIG, aligned):
    fast = aligned and {}

    @flyc.kernel
    def kernel(x: fx.Pointer, stride: fx.Int32):
        if fx.const_expr(fast):
            fx.ptr_load(x + fx.block_idx.x * stride)
        else:
            fx.ptr_load(x + fx.Int64(fx.block_idx.x) * stride)
"""


@pytest.mark.parametrize(("term", "found"), [("not BIG", 0), ("BIG", 1)])
def test_a_guard_may_be_part_of_a_condition(term: str, found: int) -> None:
    text = FLYDSL + GUARDED.format(term).replace("fx.Int64(fx.block_idx.x) * stride", "fx.thread_idx.x")
    assert len(expressions(text)) == found


def test_offsets_of_one_descriptor_are_one_finding() -> None:
    text = FLYDSL + (
        "\n@flyc.kernel\ndef kernel(x: fx.Tensor, stride: fx.Int32):\n"
        "    rows = buffer_ops.create_buffer_resource(x)\n    other = buffer_ops.create_buffer_resource(x)\n"
        "    at = fx.Int64(fx.block_idx.x) * stride\n"
        "    buffer_ops.buffer_load(rows, at)\n    buffer_ops.buffer_load(rows, at + 8)\n"
        "    buffer_ops.buffer_load(other, at)\n"
    )
    found = scan_source(text).errors
    assert [(finding.rule, len(finding.lines)) for finding in found] == [("span", 2), ("span", 1)]
    narrow = scan_source(text.replace("fx.Int64(fx.block_idx.x)", "fx.block_idx.x")).errors
    assert [finding.rule for finding in narrow] == ["product"]  # the product is what overflows first
