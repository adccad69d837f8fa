"""Witness, fix, grouping, suppression, files, reports and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validation.width_scan import limits as limits_module
from validation.width_scan import scan_paths, scan_source
from validation.width_scan.cli import main
from validation.width_scan.limits import INDEX_ROLES, INT32_MAX, POSITION, ROLES, Role, parameter_role, role_of
from validation.width_scan.measure import main as measure
from validation.width_scan.output import RULES
from validation.width_scan.symbols import add, before, evaluate, leaf, minimum, multiply, num, quantities, witness

from .pairs import PAIRS, source

KERNEL = """import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols)
    tl.store(y_ptr + row * stride + cols, x)
"""
CLEAN = KERNEL.replace("program_id(0)", "program_id(0).to(tl.int64)")


def test_one_fix_is_one_finding() -> None:
    (finding,) = scan_source(KERNEL).findings
    assert finding.lines == (8, 9)
    assert (finding.fix.line, finding.fix.operand) == (6, "row")
    assert finding.fix.rewrite == "row.to(tl.int64) * stride"
    assert finding.addresses == (8, 9)


def test_rewrite_of_a_compound_operand_keeps_its_meaning() -> None:
    text = KERNEL.replace("x_ptr + row * stride", "x_ptr + (row + 1) * stride").replace(
        "    tl.store", "    # tl.store"
    )
    (finding,) = scan_source(text).findings
    assert finding.fix.rewrite == "((row + 1).to(tl.int64)) * stride"


def test_applying_the_rewrite_removes_the_finding() -> None:
    (finding,) = scan_source(KERNEL).findings
    assert scan_source(KERNEL.replace(finding.expression, finding.fix.rewrite)).findings == []


@pytest.mark.parametrize("pair", PAIRS, ids=[f"{p.language}: {p.name}" for p in PAIRS])
def test_witness_exceeds_the_range(pair: Any) -> None:
    finding = scan_source(source(pair, pair.bad)).errors[0]
    assert finding.result > finding.maximum
    assert all(value >= 1 for value in finding.witness.values())
    if finding.rule != "span":
        assert finding.maximum == INT32_MAX


_leaves = st.builds(lambda name, limit: leaf(name, POSITION, limit), st.sampled_from("abcdef"), st.integers(1, 2**20))
_symbols = st.recursive(
    _leaves | st.integers(1, 1000).map(num),
    lambda inner: st.one_of(
        st.builds(add, inner, inner),
        st.builds(multiply, inner, inner),
        st.builds(minimum, inner, inner),
        st.builds(before, inner),
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(_symbols, st.integers(0, 2**40))
def test_no_value_of_a_witness_can_be_lowered(sym: Any, threshold: int) -> None:
    named = {q.text: q for q in quantities(sym)}
    values = witness(sym, threshold)
    if values is None:
        assert evaluate(sym, {name: q.hi for name, q in named.items()}) <= threshold
        return
    assert evaluate(sym, values) > threshold
    for name, value in values.items():
        assert value <= named[name].hi
        if value > 1:
            assert evaluate(sym, {**values, name: value - 1}) <= threshold


def _witness(body: str) -> dict[str, int]:
    head, _, _ = KERNEL.partition("    row =")
    (finding,) = scan_source(f"{head}{body}").errors
    assert finding.result > INT32_MAX
    return finding.witness


@pytest.mark.parametrize("loop", ["for i in range(stride):\n", "i = 0\n    while i < stride:\n        i += 1\n"])
def test_a_witness_of_a_loop_does_not_reach_its_end(loop: str) -> None:
    of = _witness(f"    {loop}        tl.load(x_ptr + i * tl.load(y_ptr))\n")
    last, value = of["stride"] - 1, of["loaded value"]
    assert last * value > INT32_MAX >= max((last - 1) * value, last * (value - 1))


def test_a_witness_of_a_tile_does_not_reach_its_end() -> None:
    of = _witness("    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    tl.load(x_ptr + row * stride)\n")
    last = of["tl.program_id(0) * BLOCK"] + of["BLOCK"] - 1
    assert last * of["stride"] > INT32_MAX >= max((last - 1) * of["stride"], last * (of["stride"] - 1))


def test_a_product_within_the_limits_is_not_reported() -> None:
    text = KERNEL.replace("stride, BLOCK", "top_k, BLOCK").replace("stride", "top_k")
    assert role_of("top_k").limit * 2**20 <= INT32_MAX
    assert scan_source(text).findings == []


def test_an_outer_stride_spans_a_sequence_only_where_the_tensor_has_one() -> None:
    assert parameter_role("stride_qb", ["stride_qb", "stride_qm"]).name == "outer stride"
    assert parameter_role("stride_ob", ["stride_ob", "stride_qm"]).name == "stride"


def test_every_limit_names_its_source() -> None:
    assert all(role.source and role.low <= role.typical <= role.limit for role in ROLES)


def test_host_code_is_not_device_code() -> None:
    host = (
        "\ndef launch(x, stride):\n    row = x.shape[0]\n    x_ptr = x.data_ptr()\n"
        "    return load(x_ptr + row * stride)\n"
    )
    assert scan_source(CLEAN + host).findings == []


@pytest.mark.parametrize("comment", ["    tl.load  # width-scan: bounded because x", "    # width-scan: ignore"])
def test_a_suppression_needs_a_reason(comment: str) -> None:
    findings = scan_source(CLEAN + comment + "\n").findings
    assert [finding.rule for finding in findings] == ["suppression"]


def test_a_suppression_with_a_reason() -> None:
    reason = "the host refuses more than 2^15 rows"
    text = KERNEL.replace("program_id(0)", f"program_id(0)  # width-scan: bounded because {reason}")
    result = scan_source(text)
    assert result.findings == []
    assert [finding.suppressed for finding in result.suppressed] == [reason]
    assert result.stale_suppressions == []


def test_a_quoted_suppression_is_not_one() -> None:
    result = scan_source(KERNEL + "    note = '# width-scan: bounded because it is only quoted here'\n\f\n")
    assert len(result.findings) == 1
    assert result.stale_suppressions == []


def test_a_suppression_of_nothing_is_stale() -> None:
    result = scan_source(CLEAN + "    # width-scan: bounded because it once was a product\n")
    assert result.findings == []
    assert [line for _, line in result.stale_suppressions] == [10]


def test_run_time_descriptor_size_is_a_warning() -> None:
    text = (
        "import flydsl.compiler as flyc\nimport flydsl.expr as fx\nfrom flydsl.expr import buffer_ops\n\n@flyc.kernel\n"
        "def kernel(x: fx.Pointer, tokens: fx.Int32, hidden: fx.Int32):\n"
        "    size = fx.Int64(tokens) * hidden * 2\n"
        "    r = buffer_ops.create_buffer_resource_from_addr(fx.ptrtoint(x), num_records_bytes=size)\n"
        "    buffer_ops.buffer_load(r, fx.thread_idx.x)\n"
    )
    result = scan_source(text)
    assert [(finding.rule, finding.level, finding.line) for finding in result.findings] == [("span", "warning", 8)]
    assert result.errors == []


def test_helpers_of_other_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text(
        "import flydsl.expr as fx\ndef load8(p, offset):\n    return fx.generic_load(p + offset)\n", encoding="utf-8"
    )
    kernel = (
        "import flydsl.compiler as flyc\nimport flydsl.expr as fx\nfrom .helpers import load8\n\n@flyc.kernel\n"
        "def kernel(x: fx.Pointer, stride: fx.Int32):\n    load8(x, fx.block_idx.x * stride)\n"
    )
    path = tmp_path / "kernel.py"
    path.write_text(kernel, encoding="utf-8")
    assert [finding.line for finding in scan_paths([path]).findings] == [7]
    path.write_text(kernel.replace("fx.block_idx.x *", "fx.Int64(fx.block_idx.x) *"), encoding="utf-8")
    assert scan_paths([path]).findings == []


def _tree(root: Path) -> None:
    (root / "bad.py").write_text(KERNEL, encoding="utf-8")
    (root / "clean.py").write_text(CLEAN, encoding="utf-8")
    (root / "host.py").write_text("x = 1\n", encoding="utf-8")


def test_files_that_cannot_be_read_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.py").write_text("import triton\ndef (\n", encoding="utf-8")
    (tmp_path / "bytes.py").write_bytes(b"import triton\n\xff\xfe = 1\n")
    (tmp_path / "named.py").write_text("# coding: no-such\n", encoding="utf-8")
    (tmp_path / "clean.py").write_text(CLEAN, encoding="utf-8")
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}\n", encoding="utf-8")
    (tmp_path / "host.py").write_text("def (\n", encoding="utf-8")  # which names no device language
    assert main([str(tmp_path)]) == 3
    text = capsys.readouterr().out
    assert "broken.py: unreadable: line 2" in text
    assert "host.py: unreadable: line 1" in text
    assert "bytes.py: unreadable" in text
    assert "named.py: unreadable: unknown encoding: no-such" in text
    assert "kernel.cu: not scanned: CUDA C++" in text
    assert main([str(tmp_path / "missing.py")]) == 3
    assert "missing.py: unreadable: FileNotFoundError" in capsys.readouterr().out
    assert main([str(tmp_path / "kernel.cu")]) == 3
    assert "unsupported" in capsys.readouterr().out


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _tree(tmp_path)
    assert main([str(tmp_path / "clean.py"), str(tmp_path / "host.py")]) == 0
    assert main([str(tmp_path)]) == 1
    for arguments in ([], ["--format", "xml", str(tmp_path)], ["--output", "/nowhere/at/all", str(tmp_path)]):
        assert main(arguments) == 2
    capsys.readouterr()


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for needed in ("exit codes", "width-scan: bounded because", ".to(tl.int64)", "--limits", "4 GiB"):
        assert needed in text
    assert main(["--limits"]) == 0
    limits = capsys.readouterr().out
    rows = [value for value in vars(limits_module).values() if isinstance(value, Role)] + [*ROLES, *INDEX_ROLES]
    assert all(role.name in limits and role.source in limits for role in rows)


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _tree(tmp_path)
    target = tmp_path / "scan.json"
    assert main(["--format", "json", "--output", str(target), str(tmp_path)]) == 1
    assert capsys.readouterr().out == ""
    report = json.loads(target.read_text(encoding="utf-8"))
    assert report["summary"]["findings"] == len(report["findings"]) == 1
    assert report["findings"][0]["witness"]
    assert {Path(file["path"]).name: file["status"] for file in report["files"]} == {
        "bad.py": "scanned",
        "clean.py": "scanned",
        "host.py": "no device code",
    }


#: What GitHub and the SARIF 2.1.0 specification (sections 3.13 to 3.58) require of what the scanner writes.
SARIF = {
    "type": "object",
    "required": ["version", "runs", "$schema"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results", "invocations"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "items": {"type": "object", "required": ["id", "shortDescription"]},
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {"type": "array", "items": {"type": "object", "required": ["executionSuccessful"]}},
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "ruleIndex", "level", "message", "locations"],
                            "properties": {
                                "level": {"enum": ["none", "note", "warning", "error"]},
                                "message": {"type": "object", "required": ["text"]},
                                "locations": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/location"}},
                                "relatedLocations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
                            },
                        },
                    },
                },
            },
        },
    },
    "$defs": {
        "location": {
            "type": "object",
            "required": ["physicalLocation"],
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "required": ["artifactLocation", "region"],
                    "properties": {
                        "artifactLocation": {"type": "object", "required": ["uri"]},
                        "region": {
                            "type": "object",
                            "properties": {
                                "startLine": {"type": "integer", "minimum": 1},
                                "startColumn": {"type": "integer", "minimum": 1},
                            },
                        },
                    },
                }
            },
        }
    },
}


def test_sarif(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    _tree(tmp_path)
    (tmp_path / "broken.py").write_text("import triton\ndef (\n", encoding="utf-8")
    (tmp_path / "known.py").write_text(
        KERNEL.replace("program_id(0)", "program_id(0)  # width-scan: bounded because rows are few"), encoding="utf-8"
    )
    assert main(["--format", "sarif", str(tmp_path)]) == 1
    log = json.loads(capsys.readouterr().out)
    jsonschema.validate(log, SARIF)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert rules == [name for name, _ in RULES.values()]
    assert all(rules[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert [bool(result.get("suppressions")) for result in run["results"]] == [False, True]
    assert run["invocations"][0]["executionSuccessful"] is False
    assert "broken.py" in json.dumps(run["invocations"][0]["toolExecutionNotifications"])


def test_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "case").mkdir()
    (tmp_path / "case" / "before.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "case" / "after.py").write_text(CLEAN, encoding="utf-8")
    cases = tmp_path / "cases.json"
    case = {"name": "case", "repo": "a/b", "path": "k.py", "before": "1", "after": "2", "changed_before_lines": [6]}
    cases.write_text(json.dumps({"cases": [case, {**case, "name": "absent"}]}), encoding="utf-8")
    assert measure([str(cases), str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "| case | Triton | line (1 of 1) | yes | 1 | 0 | 0 |" in text
    assert "No text at hand: absent" in text


def test_speed_is_measured_on_as_many_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL, encoding="utf-8")
    assert measure(["--speed", str(tmp_path), "--count", "7"]) == 0
    assert capsys.readouterr().out.startswith(f"7 files, {7 * len(KERNEL.splitlines())} lines, 7 kernels: ")
    (tmp_path / "kernel.py").unlink()
    with pytest.raises(SystemExit):
        measure(["--speed", str(tmp_path)])


# Robustness: whatever parses is scanned to the end.

_ATOMS = [
    "row",
    "cols",
    "stride",
    "x_ptr",
    "BLOCK",
    "7",
    "0.5",
    "None",
    "True",
    "'s'",
    "tl.program_id(0)",
    "zz",
    "-1",
    "tl.arange(0, BLOCK)",
    "tl.load(x_ptr)",
    "fx.block_idx.x",
    "[1, row]",
    "(row, 2)",
    "{'a': row}",
    "(lambda a: a * row)",
]
_FORMS = [
    "({0}) + ({1})",
    "({0}) * ({1})",
    "({0}) - ({1})",
    "({0}) // ({1})",
    "({0}) % ({1})",
    "({0}) << ({1})",
    "({0}) & ({1})",
    "({0}) ** ({1})",
    "({0})[{1}]",
    "({0}).to(tl.int64)",
    "tl.where(row < 1, {0}, {1})",
    "f({0}, {1})",
    "fx.Int64({0})",
    "tl.load({0} + {1})",
    "(({0}) if ({1}) else row)",
    "min({0}, {1})",
    "({0})({1})",
    "[{0} for q in ({1})]",
    "({0}).x",
    "tl.cast({0}, tl.int32)",
    "tl.make_block_ptr({0}, ({1},), (1,), (0,), (1,), (0,))",
]
_STATEMENTS = [
    "row = {0}",
    "x_ptr += {0}",
    "a, b = {0}, {1}",
    "a, *b = {0}",
    "for i in range({0}, {1}):\n    row += i * stride",
    "for i in {0}:\n    cols = i",
    "while {0}:\n    row = row + {1}",
    "if {0}:\n    row = {1}\nelse:\n    return",
    "tl.store({0}, {1})",
    "def f(p, q=1):\n    return p * q + row",
    "return {0}",
    "parts = []\nparts.append({0})",
    "row: tl.constexpr = {0}",
    "cols[{0}] = {1}",
    "with {0} as row:\n    pass",
    "try:\n    row = {0}\nfinally:\n    pass",
]

_expressions = st.recursive(
    st.sampled_from(_ATOMS),
    lambda inner: st.builds(lambda form, a, b: form.format(a, b), st.sampled_from(_FORMS[:-1]), inner, inner),
    max_leaves=5,
)
_statements = st.builds(
    lambda form, a, b: form.replace("{'a'", "{{'a'").format(a, b),
    st.sampled_from(_STATEMENTS),
    _expressions,
    _expressions,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(_statements, min_size=1, max_size=6), st.sampled_from(["triton", "flydsl", "gluon"]))
def test_random_kernels_are_scanned_to_the_end(statements: list[str], language: str) -> None:
    pair = PAIRS[0]._replace(language=language, parameters="x_ptr, stride, row, cols, BLOCK: tl.constexpr")
    text = source(pair, "\n".join(statements))
    result = scan_source(text)
    assert [(file.status, file.detail) for file in result.files] == [("scanned", "")]


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200))
def test_random_text_is_parsed_or_named(text: str) -> None:
    try:
        result = scan_source("import triton\n" + text)
    except (SyntaxError, ValueError):
        return
    assert result.files[0].status == "no device code"


def test_a_long_expression_is_not_a_deep_one() -> None:
    terms = " + ".join(["row * stride"] * 400)
    text = KERNEL.replace("row * stride + cols, x", f"{terms}, x")
    assert scan_source(text).files[0].status == "scanned"
