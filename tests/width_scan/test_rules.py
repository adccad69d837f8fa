"""Rules met on public kernels, each with the overflow that it must not hide. Written for these tests."""

from __future__ import annotations

import pytest

from validation.width_scan import scan_source
from validation.width_scan.findings import Finding

TRITON = "import triton\nimport triton.language as tl\n"
FLYDSL = "import flydsl.compiler as flyc\nimport flydsl.expr as fx\n"


def kernel(body: str, parameters: str = "x_ptr, stride", above: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    return f"{TRITON}{above}\n@triton.jit\ndef kernel({parameters}, BLOCK: tl.constexpr = 64):\n{lines}"


def found(text: str) -> list[Finding]:
    result = scan_source(text)
    assert [file.status for file in result.files] == ["scanned"]
    return result.errors


def lines(text: str) -> set[int]:
    return {line for finding in found(text) for line in finding.lines}


def marked(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("#!")}


ROW = "row = tl.program_id(0)\n"


def test_functions_of_the_language_by_another_name() -> None:
    text = """from triton import jit
from triton.language import program_id as block, load as fetch, constexpr

@jit
def kernel(x, stride, BLOCK: constexpr):
    fetch(x + block(0) * stride)  #!
"""
    assert lines(text) == marked(text) != set()
    assert lines(text.replace("block(0)", "block(0).to('int64')")) == set()


def test_methods_of_the_same_name_are_those_of_their_class() -> None:
    above = "".join(
        f"class {name}:\n    @staticmethod\n    @triton.jit\n    def at(i, s):\n        return {value}\n\n"
        for name, value in (("Narrow", "i * s  #!"), ("Wide", "i.to(tl.int64) * s"))
    )
    text = kernel(ROW + "tl.load(x_ptr + Narrow.at(row, stride))\ntl.load(x_ptr + Wide.at(row, stride))", above=above)
    assert lines(text) == marked(text) != set()
    assert lines(text.replace("Narrow.at(row", "Wide.at(row")) == set()


def test_a_starred_tuple_gives_its_parts() -> None:
    above = "@triton.jit\ndef put(p, i, s):\n    tl.store(p + i * s, 0.0)  #!\n"
    text = kernel(ROW + "parts = (x_ptr, row, stride)\nput(*parts)", above=above)
    assert lines(text) == marked(text) != set()
    assert lines(text.replace("(x_ptr, row,", "(x_ptr, row.to(tl.int64),")) == set()


@pytest.mark.parametrize("bounded", ["tl.clamp(row, 0, 63)", "tl.minimum(row, 63)", "row % 64", "row & 63"])
def test_bounds(bounded: str) -> None:
    assert lines(kernel(ROW + f"tl.load(x_ptr + ({bounded}) * stride)")) == set()


def test_a_bound_that_is_no_constant_bounds_nothing() -> None:
    assert lines(kernel(ROW + "tl.load(x_ptr + tl.clamp(row, 0, n_rows) * stride)", "x_ptr, stride, n_rows")) == {7}


def test_an_index_type_that_the_launcher_chooses() -> None:
    body = ROW + "tl.load(x_ptr + row.to(index_type) * stride)"
    assert lines(kernel(body, "x_ptr, stride, index_type: tl.constexpr")) == set()
    assert lines(kernel(body, "x_ptr, stride, index_type: tl.constexpr = tl.int32")) == {7}


@pytest.mark.parametrize(
    ("pointer", "summary"),
    [
        ("x_scale_ptr", True), ("scales", True), ("a_s_ptr", True), ("lse_ptr", True), ("rstd", True),
        ("loss_ptr", True), ("dmean_ptr", True), ("zp_ptr", True), ("x_scaled_ptr", False), ("softmax_out", False),
        ("delta_ptr", False), ("attn_bias_ptr", False), ("upscaled_ptr", False), ("closs_x_ptr", False),
    ],
)  # fmt: skip
def test_only_a_tensor_of_summaries_is_small(pointer: str, summary: bool) -> None:
    text = kernel(ROW + f"tl.load({pointer} + row * stride)", f"{pointer}, stride")
    assert bool(lines(text)) is not summary


def test_one_head_is_narrow_where_heads_are_counted() -> None:
    body = "i = tl.program_id(1)\ntl.load(x_ptr + i * K + tl.arange(0, BLOCK)[:, None] * K * 64)"
    assert lines(kernel(body, "x_ptr, H: tl.constexpr, K: tl.constexpr")) == set()
    hidden = "row = tl.program_id(0)\ntl.load(x_ptr + row * H * K)"
    assert lines(kernel(hidden, "x_ptr, H: tl.constexpr, K: tl.constexpr")) == {7}
    assert lines(kernel("row = tl.program_id(0)\ntl.load(x_ptr + row * K)", "x_ptr, h, K: tl.constexpr")) == {7}


def test_what_ends_a_range_is_a_tile() -> None:
    body = "tl.load(x_ptr + tl.arange(0, M)[:, None] * V)"
    assert lines(kernel(body, "x_ptr, M: tl.constexpr, V: tl.constexpr")) == set()
    assert lines(kernel(ROW + "tl.load(x_ptr + row * V)", "x_ptr, V: tl.constexpr")) == {7}


def test_what_a_difference_leaves() -> None:
    body = "b = tl.program_id(1).to(tl.int64)\nfirst = b * T\nlast = first + T\nn = (last - first).to(tl.int32)\n"
    assert lines(kernel(body + "tl.load(x_ptr + first + n)", "x_ptr, T")) == set()
    assert lines(kernel(body + "tl.load(x_ptr + last.to(tl.int32) * 4096)", "x_ptr, T")) == {10}


@pytest.mark.parametrize(
    "store",
    ["fx.ptr_store(value, p)", "fragment.store(value)", "fx.memref_store(value, p, 0)"],
)
def test_what_is_stored_is_no_address(store: str) -> None:
    text = (
        f"{FLYDSL}\n@flyc.kernel\ndef kernel(x: fx.Pointer, stride: fx.Int32):\n    fragment = make()\n"
        f"    p = x + fx.thread_idx.x\n    value = fx.block_idx.x * stride\n    {store}\n"
    )
    assert lines(text) == set()
    assert lines(text.replace("x + fx.thread_idx.x", "x + fx.block_idx.x * stride")) == {7}


def test_memory_of_the_workgroup_is_small() -> None:
    text = (
        f"{FLYDSL}\n@flyc.kernel\ndef kernel(x: fx.Pointer, stride: fx.Int32):\n    lds_ptr = fx.get_lds()\n"
        "    fx.add_offset(lds_ptr, fx.block_idx.x * stride)\n"
    )
    assert lines(text) == set()
    assert lines(text.replace("lds_ptr", "out")) == {7}


def test_the_parts_of_a_dimension_are_that_dimension() -> None:
    body = "pid_k = tl.program_id(0) % NUM_KSPLIT\ncols = pid_k * SPLITK_BLOCK + tl.arange(0, BLOCK)\n"
    parameters = "x_ptr, stride_bk, NUM_KSPLIT: tl.constexpr, SPLITK_BLOCK: tl.constexpr"
    assert lines(kernel(body + "tl.load(x_ptr + cols * stride_bk)", parameters)) == set()
    assert lines(
        kernel(
            body.replace("pid_k", "row").replace("% NUM_KSPLIT", "+ 0") + "tl.load(x_ptr + cols * stride_bk)",
            parameters,
        )
    ) == {8}


def test_programs_of_a_grid_are_countable() -> None:
    body = (
        "num_pid_m = tl.cdiv(M, BLOCK)\nnum_pid_n = tl.cdiv(N, BLOCK)\n"
        "pid = tl.program_id(0) + num_pid_m * num_pid_n * 64\ntl.load(x_ptr + pid % 8)\n"
    )
    assert lines(kernel(body + "tl.load(x_ptr + num_pid_m * num_pid_n * 64)", "x_ptr, M, N")) == set()
    assert lines(kernel(body + "tl.load(x_ptr + num_pid_m * N * 4096)", "x_ptr, M, N")) == {10}


@pytest.mark.parametrize("group", ["QUERY_GRP_SZ", "query_group_size", "kv_group_num", "NUM_Q_PER_KV"])
def test_heads_of_a_group_are_few(group: str) -> None:
    body = f"h = tl.program_id(1)\nkv_head = h\ntl.load(x_ptr + (kv_head * {group} + tl.arange(0, 16)) * stride_q_d)"
    assert lines(kernel(body, f"x_ptr, stride_q_d, {group}: tl.constexpr")) == set()
    assert lines(kernel(body.replace(group, "COUNT * 128"), "x_ptr, stride_q_d, COUNT: tl.constexpr")) == {8}


def test_a_witness_names_the_parameter_behind_a_mask() -> None:
    body = "rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\ntl.load(x_ptr + rows * stride, mask=rows < M)"
    (finding,) = found(kernel(body, "x_ptr, stride, M"))
    assert finding.witness["rows"] * finding.witness["stride"] == finding.result == 2**31
    assert finding.witness["M"] == finding.witness["rows"] + 1
