"""What a scan reads of a file before it evaluates kernels: walks, launches, and files without device code."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from validation.width_scan import scan_paths, scan_source, walking
from validation.width_scan.modules import launches, may_hold_device_code

from .test_scanner import KERNEL

_IDLE = (ast.operator, ast.cmpop, ast.unaryop, ast.boolop, ast.expr_context, ast.alias)


def test_walks_meet_every_node() -> None:
    """Against the standard library's walk, on every file of the scanner."""
    for path in Path(walking.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        whole = {id(node) for node in ast.walk(tree) if not isinstance(node, _IDLE)}
        assert {id(node) for node in walking.walk(tree)} == whole
        lines = {id(node) for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case))}
        assert {id(node) for node in walking.statements(tree.body)} == lines


def test_a_masked_block_id_made_of_itself_is_scanned_in_finite_time() -> None:
    """``pid = pid * BLOCK`` below n bounds pid, which is the name whose bounds are being read."""
    text = KERNEL.replace(
        "    cols =", "    row = row * BLOCK + tl.arange(0, BLOCK)\n    keep = row < stride\n    cols ="
    )
    (status,) = scan_source(text).files
    assert status.status == "scanned"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kernel[grid](x)", {"kernel"}),
        ("kernel [lambda META: (cdiv(n, META['B']),)] (x)", {"kernel"}),
        ("a.b.kernel[(1, 2)](x); y[0]; (z)", {"kernel"}),
        ("y[0] + f(x)", set()),
        ("](", set()),
    ],
)
def test_launches_are_read_off_the_text(text: str, names: set[str]) -> None:
    assert launches(text) == names


def test_a_kernel_launched_by_a_file_without_device_code_is_an_entry(tmp_path: Path) -> None:
    """Called by another kernel with a small row it is clean; launched by itself it is not."""
    caller = "\n@triton.jit\ndef outer(x_ptr, y_ptr, BLOCK: tl.constexpr):\n    inner(x_ptr, y_ptr, 4, BLOCK)\n"
    text = KERNEL.replace("def kernel", "def inner") + caller
    (tmp_path / "kernels.py").write_text(text)
    assert scan_paths([tmp_path]).findings == []
    (tmp_path / "host.py").write_text("from kernels import inner\n\ndef run(x, y):\n    inner[(8,)](x, y, 65536, 64)\n")
    assert [f.function for f in scan_paths([tmp_path]).findings] == ["inner"]


def test_only_files_that_can_hold_device_code_are_looked_into() -> None:
    assert may_hold_device_code("import triton\n@triton.jit\n")
    assert may_hold_device_code("from triton import jit as j\n")
    assert may_hold_device_code("import tilelang\n")
    assert not may_hold_device_code("import triton\nn = triton.cdiv(a, b)\n")
    assert not may_hold_device_code("def jit(): ...\n")
