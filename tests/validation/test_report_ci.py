"""The workflow, the action and the hooks parse, fit together, and name only commands and options that there are."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from validation import cli as validate
from validation import devices
from validation.command_line import UsageError
from validation.report import cli as report
from validation.report.shards import Shard

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "hcgr.yml"
ACTION = ROOT / ".github" / "actions" / "hcgr-validate" / "action.yml"
PARSERS = {"hcgr-validate": validate.parser, "hcgr-report": report.parser}
#: What a shell variable of a step stands for when its command line is tried.
VALUES = {"ARCH": "gfx942", "OPERATION": "hcgr", "SEED": "0", "LEVEL": "default", "SHARD": "1/4", "BASE": "main"}
VALUES |= {"FOLDER": "folder", "GITHUB_SHA": "0" * 40, "RUNNER_TEMP": "temp", "GITHUB_STEP_SUMMARY": "summary"}


def load(path: Path) -> dict[Any, Any]:
    loaded: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return loaded


def steps(document: dict[Any, Any]) -> list[dict[str, Any]]:
    if "runs" in document:
        return list(document["runs"]["steps"])
    return [step for job in document["jobs"].values() for step in job["steps"]]


def command_lines(document: dict[Any, Any]) -> Iterator[list[str]]:
    """Words of each line of a step that calls one of our commands, with its variables filled in."""
    for step in steps(document):
        for line in step.get("run", "").splitlines():
            line = re.sub(r"\$\{(\w+):\+([^}]*)\}", r"\2", line.strip())
            line = re.sub(r"\$\{?(\w+)\}?", lambda match: VALUES[match[1]] if match[1] in VALUES else match[0], line)
            words = [word for word in shlex.split(line) if word != "${accepted[@]}"]  # see the script's own test
            if words and words[0] in PARSERS:
                end = next((i for i, word in enumerate(words) if word in (">>", ">", "||", "|")), len(words))
                yield words[:end]


@pytest.mark.parametrize("path", [WORKFLOW, ACTION], ids=lambda path: path.name)
def test_commands_and_their_options_exist(path: Path) -> None:
    lines = list(command_lines(load(path)))
    assert len(lines) >= 2
    for words in lines:
        PARSERS[words[0]]().parse_args(words[1:])


def test_a_wrong_option_would_be_noticed() -> None:
    document = {"runs": {"steps": [{"run": 'hcgr-report show "$FOLDER/x.json" --form html\n'}]}}
    (words,) = command_lines(document)
    with pytest.raises(UsageError, match="unrecognized arguments: --form"):
        report.parser().parse_args(words[1:])


@pytest.mark.parametrize("path", [WORKFLOW, ACTION], ids=lambda path: path.name)
def test_no_expression_is_pasted_into_a_script(path: Path) -> None:
    """Values reach scripts as variables, so that a branch or an input cannot inject commands."""
    for step in steps(load(path)):
        assert "${{" not in step.get("run", "")
        if "run" in step and path == ACTION:
            assert step["shell"] == "bash"


NAMES = ("skip:tests/test_it.py:test_it.collect_ignore = ['x', $(y)]", "grid:tiny.anchor.a=1,b=2", "test:a")


@pytest.mark.parametrize(
    ("base", "given", "accepted"),
    [
        ("main", "", ()),
        ("main", "\n".join(NAMES), NAMES),
        ("main", f" {NAMES[0]} ;{NAMES[1]};; \n{NAMES[2]}\n\n", NAMES),
        ("", NAMES[0], ()),  # a push has no base: the command would refuse the option
    ],
)
def test_the_action_hands_on_the_findings_to_accept(
    tmp_path: Path, base: str, given: str, accepted: tuple[str, ...]
) -> None:
    """The script of the action itself, with a command in its place that notes what it was given."""
    stand_in = tmp_path / "hcgr-validate"
    stand_in.write_text('#!/bin/sh\nprintf "%s\\0" "$@" > "$FOLDER/given"\nexit 3\n')
    stand_in.chmod(0o755)
    (step,) = [step for step in steps(load(ACTION)) if step.get("id") == "validate"]
    output = tmp_path / "output"
    values = VALUES | {"BASE": base, "ACCEPT": given, "FOLDER": str(tmp_path / "a b"), "GITHUB_OUTPUT": str(output)}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]  # as a runner starts it
    subprocess.run(shell, check=True, env={"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"} | values)
    words = (tmp_path / "a b" / "given").read_text().split("\0")[:-1]
    options = validate.parser().parse_args(words)
    assert (options.base or "", tuple(options.accept_policy)) == (base, accepted)
    assert (options.arch, str(options.shard), str(options.report.parent)) == (["gfx942"], "1/4", str(tmp_path / "a b"))
    assert output.read_text() == "exit-code=3\n"


def test_who_may_start_the_workflow_by_hand_may_accept_findings() -> None:
    document = load(WORKFLOW)
    (used,) = [step["with"] for step in steps(document) if step.get("uses", "").startswith("./")]
    assert used["accept-policy"] == "${{ inputs.accept-policy }}"
    by_hand = document[True]["workflow_dispatch"]["inputs"]  # YAML 1.1 reads the key "on" so
    assert {"base", "accept-policy"} == set(by_hand)
    assert "pull_request_target" not in document[True]


@pytest.mark.parametrize("path", [WORKFLOW, ACTION], ids=lambda path: path.name)
def test_variables_of_a_script_are_set(path: Path) -> None:
    document = load(path)
    shared = {name for job in document.get("jobs", {}).values() for name in job.get("env", {})}
    given = {"GITHUB_OUTPUT", "GITHUB_SHA", "GITHUB_STEP_SUMMARY", "RUNNER_TEMP", "code", "name", "accepted"} | shared
    for step in steps(document):
        used = set(re.findall(r"\$\{?(\w+)", step.get("run", "")))
        assert used <= given | set(step.get("env", {})), step.get("name")


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    inputs = load(ACTION)["inputs"]
    used = [step for step in steps(load(WORKFLOW)) if step.get("uses", "").startswith("./")]
    assert used
    for step in used:
        assert (ROOT / step["uses"] / "action.yml").is_file()
        assert set(step["with"]) <= set(inputs)
        assert {name for name, spec in inputs.items() if spec.get("required")} <= set(step["with"])


def test_the_inputs_of_the_action_are_all_used() -> None:
    text = ACTION.read_text(encoding="utf-8")
    document = load(ACTION)
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(document["inputs"])
    identifiers = {step["id"] for step in document["runs"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.(\w+)\.outputs", text)) <= identifiers


def test_the_matrix_is_every_arch_and_all_shards_of_one_split() -> None:
    jobs = load(WORKFLOW)["jobs"]
    matrix = jobs["validate"]["strategy"]["matrix"]
    shards = [Shard.parse(text) for text in matrix["shard"]]
    assert shards == [Shard(i + 1, len(shards)) for i in range(len(shards))]
    assert matrix["arch"] == jobs["verdict"]["strategy"]["matrix"]["arch"] == list(devices.ARCHES)
    assert jobs["verdict"]["needs"] == "validate"


def test_a_pull_request_is_compared_with_its_base() -> None:
    jobs = load(WORKFLOW)["jobs"]
    (validate_step,) = [step for step in jobs["validate"]["steps"] if step.get("uses", "").startswith("./")]
    assert validate_step["with"]["base"] == "${{ github.event.pull_request.base.sha || inputs.base }}"
    for job in ("validate", "verdict"):  # the base's commit is not in a shallow checkout
        (checkout,) = [step for step in jobs[job]["steps"] if step.get("uses", "").startswith("actions/checkout@")]
        assert checkout["with"]["fetch-depth"] == 0
    (line,) = [words for words in command_lines(load(ACTION)) if words[0] == "hcgr-validate"]
    assert line[line.index("--base") + 1] == "main"
    assert '${BASE:+--base "$BASE"}' in ACTION.read_text(encoding="utf-8")  # a push has none


def test_the_workflow_keeps_every_form_and_ends_in_a_gate() -> None:
    gates = [words for words in command_lines(load(WORKFLOW)) if words[1] == "check"]
    assert [("--against" in words, "--pass" in words) for words in gates] == [(True, True)]
    shown = {words[words.index("--format") + 1] for words in command_lines(load(WORKFLOW)) if words[1] == "show"}
    assert shown == {"html", "sarif", "junit", "markdown"}
    last = load(WORKFLOW)["jobs"]["verdict"]["steps"][-1]
    assert "check" in last["run"]
    assert "if" not in last


def test_the_least_permissions_are_asked_for() -> None:
    document = load(WORKFLOW)
    assert document["permissions"] == {"contents": "read"}
    assert document["jobs"]["verdict"]["permissions"] == {"contents": "read", "security-events": "write"}
    assert "permissions" not in document["jobs"]["validate"]


def test_hooks_run_commands_that_exist() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    own = {h["id"]: h for r in load(ROOT / ".pre-commit-config.yaml")["repos"] for h in r["hooks"]}
    for entry, files in ((hook["entry"], hook["files"]), (own["reports"]["entry"], own["reports"]["files"])):
        command, *words = shlex.split(entry)
        PARSERS[command]().parse_args([*words, "reports/hcgr.gfx942.json"])
        assert re.search(files, "reports/hcgr.gfx942.json")
        assert not re.search(files, "schemas/report.schema.json")
    assert re.search(own["schemas"]["files"], "schemas/report.schema.json")


def test_scripts_are_declared() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'hcgr-report = "validation.report.cli:main"' in text
