"""``hcgr-mutate``: what it takes, what it says, and what it takes up from a run before."""

from __future__ import annotations

import json
import shlex
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from mutation_fakes import FakePool

from validation import executors, operation
from validation.mutation import cli, manifest, result
from validation.mutation.manifest import load_corpus
from validation.mutation.state import PACKAGES

CORPUS = load_corpus()


def test_list_names_the_mutants(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list", "--class", "tail-guard"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all(line.startswith("tail-guard/") for line in lines)


def test_list_follows_the_arch(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--list", "--class", "loose-wait"]) == 0
    both = capsys.readouterr().out.splitlines()
    assert cli.main(["--list", "--class", "loose-wait", "--arch", "gfx942"]) == 0
    assert 0 < len(capsys.readouterr().out.splitlines()) < len(both)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": "hcgr-mutation/1"}'])
def test_no_table_of_what_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    assert cli.main(["--table", str(tmp_path / "r.json")]) == 2
    assert "r.json: no " in capsys.readouterr().err


def test_what_takes_part_follows_the_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operation is known by a name or by its reference, and may be defined beside the package that it tests."""
    (tmp_path / "op_elsewhere").mkdir()
    text = "from dataclasses import replace\nfrom validation.operation import load_operation\n"
    text += "OPERATION = replace(load_operation('hcgr'), name='elsewhere', packages=('code_elsewhere',))\n"
    (tmp_path / "op_elsewhere" / "entry.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    reference = "op_elsewhere.entry:OPERATION"
    known = operation.registered_operations() | {"elsewhere": reference}
    for module in (cli, operation):
        monkeypatch.setattr(module, "registered_operations", lambda: known)
    for name in ("elsewhere", reference):
        assert cli.take_part(name) == (*PACKAGES, "code_elsewhere", "op_elsewhere")
    assert cli.take_part("hcgr") == cli.take_part("add_rms_norm") == PACKAGES
    assert {"tests", "schemas", "mutants"} < set(PACKAGES)


def test_an_operation_that_has_changed_is_run_again(
    pool: type[FakePool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "op_changing").mkdir()
    entry = tmp_path / "op_changing" / "entry.py"
    entry.write_text("from validation.ops.hcgr import OPERATION\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    common = ["--arch", "gfx942", "--state", str(tmp_path / "s"), "--mutant", "loosened-tolerance/lambda", "--resume"]
    common += ["--op", "op_changing.entry:OPERATION"]
    asked = []
    for text in ("", "", "# changed\n"):
        with entry.open("a") as stream:
            stream.write(text)
        pool.asked = []
        assert cli.main(common) == 0
        asked.append(len(pool.asked))
    assert asked == [3, 0, 3]


def test_results_of_another_operation_are_not_taken_up(pool: type[FakePool], tmp_path: Path) -> None:
    common = ["--arch", "gfx942", "--state", str(tmp_path / "s"), "--mutant", "loosened-tolerance/lambda", "--resume"]
    assert cli.main(common) == 0
    pool.asked = []
    assert cli.main([*common, "--op", "add_rms_norm"]) == 0
    assert pool.asked
    pool.asked = []
    assert cli.main(common) == 0
    assert pool.asked == []


@pytest.mark.parametrize(
    "arguments",
    [["--no-such"], [], ["--arch", "gfx90a"], ["--arch", "gfx942", "--mutant", "no/such"], ["--jobs", "0", "--list"],
     ["--arch", "gfx942", "--min-kill-rate", "1.5"], ["--arch", "gfx942", "--report", "/no/such/folder/x.json"],
     ["--arch", "gfx942", "--corpus", "/no/such/folder"], ["--list", "--max-wrong-check", "-1"],
     ["--list", "--class", "tail-guard", "--mutant", "tail-guard/combine-row"],
     ["--list", "--sample", "3", "--mutant", "tail-guard/combine-row"],
     ["--list", "--generated", "--class", "tail-guard"], ["--arch", "gfx942", "--op", "no_such"]],
)  # fmt: skip
def test_bad_arguments_run_nothing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == 2
    assert "hcgr-mutate: error:" in capsys.readouterr().err


def test_a_run_that_selects_nothing_is_inconclusive(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pool: type[FakePool]
) -> None:
    only = next(m.name for m in CORPUS.mutants if m.archs == ("gfx942",))
    assert cli.main(["--arch", "gfx950", "--mutant", only, "--state", str(tmp_path / "s")]) == 3
    assert "INCONCLUSIVE: no mutant was selected" in capsys.readouterr().err


def test_the_command_reports_survivors_with_their_replay(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pool: type[FakePool]
) -> None:
    name = "loosened-tolerance/lambda"
    pool.answers = {name: "pass"}
    path = tmp_path / "out.json"
    common = ["--arch", "gfx942", "--state", str(tmp_path / "s"), "--report", str(path), "--max-wrong-check", "9"]
    assert cli.main([*common, "--class", "loosened-tolerance"]) == 1
    out = capsys.readouterr().out
    assert f"SURVIVED {name}" in out
    assert f"replay: hcgr-mutate --arch gfx942 --mutant {name}" in out
    document = json.loads(path.read_text())
    assert result.problems(document, date.today()) == []
    assert document["counts"]["survived"] == 1
    assert cli.main(["--table", str(path)]) == 0
    assert "| loosened tolerance | " in capsys.readouterr().out


def test_the_replay_names_the_corpus_that_holds_the_mutant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pool: type[FakePool]
) -> None:
    name = "loosened-tolerance/lambda"
    corpus = tmp_path / "my corpus"
    shutil.copytree(manifest.CORPUS, corpus)
    pool.answers = {name: "pass"}
    state = ["--state", str(tmp_path / "s")]
    assert cli.main(["--arch", "gfx942", "--corpus", str(corpus), "--mutant", name, *state]) == 1
    replay = capsys.readouterr().out.partition("replay: hcgr-mutate ")[2].splitlines()[0]
    assert cli.main([*shlex.split(replay), *state]) == 1
    assert f"SURVIVED {name}" in capsys.readouterr().out


def test_an_interrupt_is_said_and_keeps_what_was_done(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, pool: type[FakePool]
) -> None:
    pool.answers = {"loosened-tolerance/lambda": KeyboardInterrupt()}
    state = tmp_path / "s"
    code = cli.main(["--arch", "gfx942", "--state", str(state), "--mutant", "loosened-tolerance/lambda"])
    assert code == 130
    assert "--resume" in capsys.readouterr().err
    assert state.read_text()


def test_a_result_has_the_jobs_of_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pool: type[FakePool]
) -> None:
    class Shrinking(executors.Local):
        """A cluster whose workers go with the first pool."""

        left = 5

        @property
        def jobs(self) -> int:
            return self.left

        def __init__(self, *arguments: Any) -> None: ...

        def pool(self, *arguments: Any) -> Any:
            Shrinking.left = 1
            return FakePool(1, *arguments)

    monkeypatch.setattr(executors, "Local", Shrinking)
    path = tmp_path / "out.json"
    common = ["--arch", "gfx942", "--state", str(tmp_path / "s"), "--report", str(path)]
    assert cli.main([*common, "--mutant", "loosened-tolerance/lambda"]) == 0
    assert (json.loads(path.read_text())["jobs"], Shrinking.left) == (5, 1)
