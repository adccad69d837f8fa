"""What the same thing may be called: decorators, types, methods; and files that a listing must not pass over."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from validation.width_scan import scan_paths, scan_source
from validation.width_scan.cli import main

BODY = """(x_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    tl.store(x_ptr + row * stride + tl.arange(0, BLOCK), 0.0)  #!
"""
HEAD = "import triton\nimport triton.language as tl\n"


def _marked(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("#!")}


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("from triton import jit\n@jit\n", ""),
        ("from triton import jit as compiled\n@compiled\n", ""),
        ("import triton as t\n@t.jit\n", ""),
        ("device = triton.jit\n@device\n", ""),
        ("device = triton.jit(do_not_specialize=['stride'])\n@device\n", ""),
        ("", "k = triton.jit(kernel)\n"),
        ("", "k = triton.jit(fn=kernel)\n"),
        ("", "k = triton.autotune(configs=[], key=[])(triton.jit(kernel))\n"),
    ],
)
def test_device_code_is_known_by_what_compiles_it(above: str, below: str) -> None:
    text = f"{HEAD}{above}def kernel{BODY}\n{below}"
    assert {finding.line for finding in scan_source(text).findings} == _marked(text)


def test_a_flydsl_kernel_by_another_name() -> None:
    text = """from flydsl.compiler import kernel as device_code
from flydsl import expr as E

@device_code
def k(x: E.Pointer, stride: E.Int32):
    E.generic_store(E.generic_load(x), x + E.block_idx.x * stride)  #!
"""
    assert {finding.line for finding in scan_source(text).findings} == _marked(text)


@pytest.mark.parametrize(
    "alias", ["compiled = host_jit", "compiled = triton.cdiv", "compiled = triton.jit_cache(kernel)"]
)
def test_what_compiles_nothing_makes_no_kernel(alias: str) -> None:
    assert scan_source(f"{HEAD}{alias}\ndef kernel{BODY}").files[0].status == "no device code"


@pytest.mark.parametrize(
    ("before", "parameter", "cast"),
    [
        ("INDEX = tl.int64", "", "row.to(INDEX)"),
        ("INDEX: tl.constexpr = tl.constexpr(tl.int64)", "", "tl.cast(row, INDEX)"),
        ("", ", T: tl.constexpr = tl.int64", "row.to(T)"),
        ("@triton.jit\ndef as_type(v, T: tl.constexpr):\n    return v.to(T)", "", "as_type(row, tl.int64)"),
        ("@triton.jit\ndef as_type(v, T: tl.constexpr = tl.int64):\n    return v.to(T)", "", "as_type(row)"),
        ("INDEX = tl.int64", "", "(row + tl.zeros((), INDEX))"),
    ],
)
def test_a_type_may_have_a_name(before: str, parameter: str, cast: str) -> None:
    def text(widths: str) -> str:
        body = BODY.replace("row * stride", f"{cast} * stride").replace("tl.constexpr)", f"tl.constexpr{parameter})")
        return f"{HEAD}{before}\n@triton.jit\ndef kernel{body}".replace("int64", widths)

    assert scan_source(text("int64")).findings == []
    assert {finding.line for finding in scan_source(text("int32")).findings} == _marked(text("int32"))


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("wide", [True, False])
def test_a_method_is_a_helper(static: bool, wide: bool) -> None:
    decorator, first, owner = ("@staticmethod\n    ", "", "Rows") if static else ("", "self, ", "Rows(stride)")
    text = f"""{HEAD}
class Rows:
    {decorator}@triton.jit
    def offset({first}r, stride):
        return r * stride  #!

@triton.jit
def kernel(x_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0){".to(tl.int64)" if wide else ""}
    rows = {owner}
    tl.store(x_ptr + {"Rows" if static else "rows"}.offset(row, stride) + tl.arange(0, BLOCK), 0.0)
"""
    assert {finding.line for finding in scan_source(text).findings} == (set() if wide else _marked(text))


@pytest.mark.parametrize("product", ["row * BLOCK * HIDDEN", "row * (BLOCK * HIDDEN)", "(BLOCK * HIDDEN) * row"])
def test_parentheses_make_no_difference(product: str) -> None:
    text = f"{HEAD}@triton.jit\ndef kernel{BODY}".replace("row * stride", product)
    text = text.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, HIDDEN: tl.constexpr")
    assert {finding.line for finding in scan_source(text).findings} == _marked(text)


def test_turns_that_an_int64_bounds_are_int64() -> None:
    """Triton makes an argument of 2**31 or more an int64, and with it the loop's variable; a block id stays 32 bits."""
    text = f"""{HEAD}
@triton.jit
def kernel(x_ptr, n_elements, BLOCK: tl.constexpr):
    for block in range(tl.cdiv(n_elements, BLOCK)):
        offset = block * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offset, 0.0, mask=offset < n_elements)
"""
    assert scan_source(text).findings == []
    strided = text.replace("range(tl.cdiv(n_elements, BLOCK))", "range(1)").replace("block *", "tl.program_id(0) *")
    assert [finding.line for finding in scan_source(strided).findings] == [7]


def test_a_notebook_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = tmp_path / "kernels.ipynb"
    book.write_text('{"cells": [{"cell_type": "code", "source": ["import triton"]}]}', encoding="utf-8")
    assert main([str(book)]) == 3
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("kernels.ipynb: ") == 2


def test_an_empty_directory_is_no_clean_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 3
    assert "no Python file in it" in capsys.readouterr().out


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clean.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "shut").mkdir()
    real = os.scandir

    def scandir(path: str) -> object:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    (unread,) = scan_paths([tmp_path]).unread
    assert unread.path == str(tmp_path / "shut")
    assert "Permission denied" in unread.detail
