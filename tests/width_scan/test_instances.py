"""Fields of instances (aggregates): what they were given, with its width. Written for these tests."""

from __future__ import annotations

import pytest

from validation.width_scan.scan import scan_source

HEAD = """from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.language.core import _aggregate as aggregate

"""
FIELDS = "    ptr: gl.tensor\n    stride: gl.tensor\n"
INIT = """    @gluon.constexpr_function
    def __init__(self, ptr, stride):
        self.ptr = ptr
        self.stride = stride
"""
LOAD = """    @gluon.jit
    def load(self, i):
        return gl.load(self.ptr + i * self.stride)  #!
"""
CREATE = """    @gluon.jit
    def create(ptr, stride):
        return Rows(ptr, stride)
"""
KERNEL = "\n@gluon.jit\ndef kernel(x_ptr, stride):\n    i = gl.program_id(0)\n"


def lines(text: str) -> set[int]:
    result = scan_source(text)
    assert [file.status for file in result.files] == ["scanned"]
    return {line for finding in result.errors for line in finding.lines}


def marked(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("#!")}


@pytest.mark.parametrize(
    ("body", "use"),
    [
        (FIELDS + INIT, "    rows = Rows(x_ptr, stride)\n    gl.load(rows.ptr + i * rows.stride)  #!\n"),
        (FIELDS, "    rows = Rows(x_ptr, stride=stride)\n    gl.load(rows.ptr + i * rows.stride)  #!\n"),
        (FIELDS + INIT + LOAD, "    rows = Rows(x_ptr, stride)\n    rows.load(i)\n"),
        (FIELDS + INIT + CREATE + LOAD, "    rows = Rows.create(x_ptr, stride)\n    rows.load(i)\n"),
    ],
    ids=["constructor", "fields alone", "method", "factory"],
)
@pytest.mark.parametrize("where", ["field", "index"])
def test_a_field_is_as_wide_as_what_it_was_given(body: str, use: str, where: str) -> None:
    text = f"{HEAD}@aggregate\nclass Rows:\n{body}{KERNEL}{use}"
    assert lines(text) == marked(text) != set()
    if where == "index":
        wide = text.replace("gl.program_id(0)", "gl.program_id(0).to(gl.int64)")
    else:
        wide = text.replace("(x_ptr, stride)\n", "(x_ptr, stride.to(gl.int64))\n").replace(
            "=stride)", "=stride.to(gl.int64))"
        )
        wide = wide.replace("def kernel(x_ptr, stride.to(gl.int64))", "def kernel(x_ptr, stride)")
    assert lines(wide) == set()


def test_each_instance_has_its_own_fields() -> None:
    use = (
        "    a = Rows(x_ptr, stride)\n    b = Rows(x_ptr, stride.to(gl.int64))\n"
        "    gl.load(a.ptr + i * a.stride)  #!\n    gl.load(b.ptr + i * b.stride)\n"
    )
    text = f"{HEAD}@aggregate\nclass Rows:\n{FIELDS}{INIT}{KERNEL}{use}"
    assert lines(text) == marked(text) != set()


def test_fields_of_fields_and_methods_of_the_same_name() -> None:
    other = "@aggregate\nclass Wide:\n" + FIELDS + INIT + LOAD.replace("i * ", "i.to(gl.int64) * ").replace("  #!", "")
    holder = "\n@aggregate\nclass Both:\n    rows: Rows\n    wide: Wide\n"
    use = "    both = Both(Rows(x_ptr, stride), Wide(x_ptr, stride))\n    both.wide.load(i)\n    both.rows.load(i)\n"
    text = f"{HEAD}@aggregate\nclass Rows:\n{FIELDS}{INIT}{LOAD}\n{other}{holder}{KERNEL}{use}"
    assert lines(text) == marked(text) != set()
    assert (
        lines(text.replace("both.rows.load(i)", "both.wide.load(i)").replace("i * self", "i.to(gl.int64) * self"))
        == set()
    )


def test_a_field_after_either_of_two_paths() -> None:
    use = (
        "    if x_ptr is None:\n        rows = Rows(x_ptr, stride)\n"
        "    else:\n        rows = Rows(x_ptr, stride.to(gl.int64))\n"
        "    gl.load(rows.ptr + i * rows.stride)  #!\n"
    )
    text = f"{HEAD}@aggregate\nclass Rows:\n{FIELDS}{INIT}{KERNEL}{use}".replace("x_ptr is None", "gl.load(x_ptr) > 0")
    assert lines(text) == marked(text) != set()


def test_an_instance_that_holds_itself() -> None:
    use = "    rows = Rows(x_ptr, stride)\n    rows.again = rows\n    rows.load(i)\n"
    text = f"{HEAD}@aggregate\nclass Rows:\n{FIELDS}{INIT}{LOAD}{KERNEL}{use}"
    assert lines(text) == marked(text) != set()
    assert lines(text.replace("i * self", "i.to(gl.int64) * self")) == set()


def test_instances_that_hold_each_other_tell_calls_apart() -> None:
    use = """    rows = Rows(x_ptr, stride)
    far = Rows(x_ptr, stride.to(gl.int64))
    rows.other = far
    far.other = rows
    far.load(i)
    rows.load(i)
"""
    text = f"{HEAD}@aggregate\nclass Rows:\n{FIELDS}{INIT}{LOAD}{KERNEL}{use}"
    assert lines(text) == marked(text) != set()
    assert lines(text.replace("    rows.load(i)\n", "")) == set()
