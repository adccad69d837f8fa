"""The parts of a comparison, each alone: machine code, sources, worktrees, pins, timing, what follows from two runs."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_repository as tiny
import torch
from tiny_repository import Repository

from validation.base import compare, machine_code, outputs, perf, pins, worktree
from validation.base.case import OtherCodeError, execute, wrapped
from validation.base.git import GitError
from validation.base.revision import Base, resolve_base, tree_digest
from validation.base.sources import closure, laid_out
from validation.base.worktree import checked_out
from validation.cases import Task
from validation.operation import load_operation
from validation.report.verdict import decide

ASM = """\
\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-gfx942"
\t.text
k: ; what it is
.Lfunc_begin0:
\t.file\t1 "/one/place" "k.py via /one/place/helper.py:12"
\t.cfi_startproc
\t.loc\t1 25 10 prologue_end
.Ltmp3:
\ts_cbranch_scc1 .LBB0_7  // to the end
\tv_mov_b32   v0, 0x10
.LBB0_7:
\ts_endpgm
.Lfunc_end0:
\t.size k, .Lfunc_end0-k
\t.section\t.debug_info,"",@progbits
\t.long .Ltmp3-.Lfunc_begin0
\t.section\t".note.GNU-stack","",@progbits
\t.amdgpu_metadata
---
amdhsa.kernels:
  - .group_segment_fixed_size: 0
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 64
    .name: k
    .private_segment_fixed_size: 0
    .sgpr_count: 8
    .sgpr_spill_count: 0
    .vgpr_count: 8
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: amdgcn-amd-amdhsa-unknown-gfx942
...
\t.end_amdgpu_metadata
"""
SAME = {
    "another line": (".loc\t1 25 10 prologue_end", ".loc\t2 99 1"),
    "another place": ("/one/place", "/another"),
    "another comment": ("; what it is", "; something else"),
    "no comment": ("  // to the end", ""),
    "another spacing": ("v_mov_b32   v0, 0x10", "v_mov_b32 v0,  0x10"),
    "other labels": (".LBB0_7", ".LBB4_1"),
    "a label that the debugger uses": (".Ltmp3", ".Ltmp77"),
    "no line table at all": ("\t.loc\t1 25 10 prologue_end\n.Ltmp3:\n", ""),
}
OTHER = {
    "an operand": ("0x10", "0x11"),
    "an instruction": ("s_endpgm", "s_nop 0\n\ts_endpgm"),
    "where a branch goes": (".LBB0_7:\n\ts_endpgm", "\ts_endpgm\n.LBB0_7:"),
    "registers": (".vgpr_count: 8", ".vgpr_count: 9"),
    "LDS": (".group_segment_fixed_size: 0", ".group_segment_fixed_size: 64"),
    "the arch": ("unknown-gfx942\n...", "unknown-gfx950\n..."),
}


@pytest.mark.parametrize("name", SAME)
def test_what_people_read_is_no_machine_code(name: str) -> None:
    assert machine_code.kernel_hashes(ASM.replace(*SAME[name])) == machine_code.kernel_hashes(ASM)


@pytest.mark.parametrize("name", OTHER)
def test_what_the_machine_does_is(name: str) -> None:
    changed = ASM.replace(*OTHER[name])
    assert changed != ASM
    assert machine_code.kernel_hashes(changed)["k"] != machine_code.kernel_hashes(ASM)["k"]


def test_the_line_table_names_the_files_behind_a_kernel(repository: Repository) -> None:
    text = ASM.replace("/one/place/helper.py", str(repository.root / "tiny/host.py"))
    text = text.replace("/one/place", str(repository.root / "tiny/kernels"))
    assert machine_code.source_files(text, ["tiny"]) == ["tiny/host.py", "tiny/kernels/k.py"]


def test_hashes_are_of_every_byte_and_not_of_the_layout() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    strided = torch.zeros(2, 8)[:, :3].copy_(x)
    one = outputs.hashes({"y": x})
    assert outputs.hashes({"y": strided}) == one
    assert outputs.hashes({"y": -0.0 * x}) != outputs.hashes({"y": 0.0 * x})  # equal as numbers, other bits
    for other in (x.double(), x.reshape(3, 2), x + 1e-6):
        assert outputs.hashes({"y": other}) != one
    assert len(outputs.hashes({"none": torch.zeros(0, 3)})["none"]) == 64


def test_imports_are_followed_wherever_they_stand(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "r")
    repository.write(
        {
            "tiny/a.py": "from tiny import b\n",
            "tiny/b.py": "def f():\n    from . import c\n    import tiny.kernels.scale\n",
            "tiny/c.py": "import os\nfrom .kernels import shift as s\n",
            "tiny/d.py": "import tiny.a\n",
        }
    )
    reached = closure({"tiny/a.py"}, repository.root)
    assert reached == {"tiny/a.py", "tiny/b.py", "tiny/c.py", "tiny/kernels/scale.py", "tiny/kernels/shift.py"}


def lay_out(repository: Repository, folder: Path) -> Any:
    operation = load_operation(tiny.REFERENCE)
    base = resolve_base("HEAD", operation)
    with checked_out(base) as place:
        return laid_out(base, place / "tree", folder, operation, tiny.REFERENCE)


def test_files_differ_by_what_they_do(repository: Repository, tmp_path: Path) -> None:
    repository.write(
        {
            "tiny/host.py": tiny.HOST.replace("import torch\n", "import torch  # what for?\n\n\n"),
            "tiny/kernels/scale.py": tiny.kernel("scale", operand="3"),
            "tiny/operation.py": tiny.OPERATION + "\nMORE = 1\n",
            "tiny/new.json": "{}",
        }
    )
    code = lay_out(repository, tmp_path / "code")
    assert code.differing == {"tiny/kernels/scale.py", "tiny/new.json"}
    assert code.judges == ("tiny/operation.py", "tiny/driver.py")
    assert (code.missing, (tmp_path / "code/tiny/new.json").exists()) == ((), False)
    assert "MORE" in (tmp_path / "code/tiny/operation.py").read_text()  # the judge is the head's
    assert "OPERAND = 2" in (tmp_path / "code/tiny/kernels/scale.py").read_text()


def test_a_package_that_the_base_lacks_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.git("rm", "-r", "--quiet", "tiny")
    repository.commit()
    repository.write(tiny.FILES)
    assert lay_out(repository, tmp_path / "code").missing == ("tiny",)


def test_an_answer_from_other_code_is_none(repository: Repository, tmp_path: Path) -> None:
    task = wrapped(Task("contract.tiny.negative", "contract", {}), tmp_path / "elsewhere", ("tiny",))
    with pytest.raises(OtherCodeError, match="not from the base"):
        execute(task.payload, None)


def head(repository: Repository) -> Base:
    return Base("HEAD", repository.git("rev-parse", "HEAD"), repository.root)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_worktree_is_gone_whatever_ends_the_block(repository: Repository, error: type[BaseException]) -> None:
    (repository.root / "tiny/host.py").write_text("not committed")
    (repository.root / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch hooked\n")
    (repository.root / ".git/hooks/post-checkout").chmod(0o755)
    before = repository.git("status", "--porcelain")
    seen: list[Path] = []

    def work() -> None:
        with checked_out(head(repository)) as folder:
            seen.append(folder)
            assert (folder / "tree/tiny/host.py").read_text() == tiny.HOST
            assert not (folder / "tree/hooked").exists()  # no hook of the repository runs
            (folder / "tree/tiny/host.py").write_text("dirty")
            raise error

    with pytest.raises(error):
        work()
    assert not seen[0].exists()
    assert (repository.traces(), repository.git("status", "--porcelain")) == ([], before)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_while_git_works_waits_and_then_leaves_nothing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, when: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    real: Callable[..., str] = worktree.git

    def interrupted(folder: Path, *arguments: str) -> str:
        adding = arguments[:2] == ("worktree", "add")
        if adding and when == "before":
            os.kill(os.getpid(), signal.SIGINT)
        answer = real(folder, *arguments)
        if adding and when == "after":
            os.kill(os.getpid(), signal.SIGINT)
        return answer

    monkeypatch.setattr(worktree, "git", interrupted)
    with pytest.raises(KeyboardInterrupt), checked_out(head(repository)):
        raise AssertionError("the block was entered")
    assert repository.traces() == []
    assert not list(tmp_path.glob("hcgr-base-*"))


def test_a_worktree_that_was_half_made_is_cleared(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., str] = worktree.git

    def breaks(folder: Path, *arguments: str) -> str:
        answer = real(folder, *arguments)
        if arguments[:2] == ("worktree", "add"):
            (Path(arguments[-2]) / ".git").unlink()
            raise GitError("no space left on device")
        return answer

    monkeypatch.setattr(worktree, "git", breaks)
    with pytest.raises(GitError, match="no space"), checked_out(head(repository)):
        raise AssertionError("the block was entered")
    assert repository.traces() == []


def test_a_commit_hook_does_not_lead_git_elsewhere(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    base = resolve_base("HEAD", load_operation(tiny.REFERENCE))
    monkeypatch.undo()
    assert base.commit == repository.git("rev-parse", "HEAD")


def test_the_name_of_a_tree_follows_its_files_alone(repository: Repository) -> None:
    before = tree_digest(repository.root)
    repository.commit()  # empty
    (repository.root / "out.json").write_text("a report")
    assert tree_digest(repository.root) == before
    (repository.root / "tiny/new.py").write_text("")
    assert tree_digest(repository.root) != before
    (repository.root / "tiny/new.py").unlink()
    (repository.root / "tiny/host.py").write_text(tiny.HOST + " ")
    assert tree_digest(repository.root) != before


PROJECT = (
    '[project]\nrequires-python = ">=3.11"\ndependencies = ["torch>=2"]\n[build-system]\nrequires = ["hatchling"]\n'
)


def test_other_pins_are_noted_and_equal_ones_are_not(tmp_path: Path) -> None:
    for name in ("base", "head"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").write_text(PROJECT)
        (tmp_path / name / "constraints.txt").write_text("# tested\nnumpy==1\n")
    assert pins.notes(tmp_path / "base", tmp_path / "head") == []
    (tmp_path / "head/pyproject.toml").write_text(PROJECT.replace("torch>=2", "torch>=3"))
    (tmp_path / "head/constraints.txt").write_text("numpy==1\nrich==2\n")
    assert pins.notes(tmp_path / "base", tmp_path / "head") == [
        "pyproject.toml: only the base asks for torch>=2; only the head asks for torch>=3; "
        "both ran in the head's environment",
        "constraints.txt: only the head asks for rich==2; both ran in the head's environment",
    ]


class StandInDevice:
    """Seconds of calls on a device whose clock slows down as it goes, with a hiccup now and then."""

    def __init__(self, drift: float = 0.0, hiccup: int = 0) -> None:
        self.calls: list[str] = []
        self._drift, self._hiccup = drift, hiccup

    def timer(self, name: str, seconds: float) -> Callable[[], float]:
        def run() -> float:
            self.calls.append(name)
            late = 10.0 if self._hiccup and len(self.calls) % self._hiccup == 0 else 0.0
            return seconds * (1 + self._drift * len(self.calls)) + late

        return run

    def timing(self, base: float, head: float, rounds: int = 9) -> perf.Timing:
        seconds = {"base": base, "head": head, "control": 1.0}
        return perf.time_sides({name: self.timer(name, value) for name, value in seconds.items()}, rounds)


def test_sides_take_turns_and_every_second_round_runs_backwards() -> None:
    device = StandInDevice()
    device.timing(1.0, 1.0, rounds=2)
    warm, rounds = device.calls[:3], device.calls[3:]
    assert warm == ["base", "head", "control"]
    assert rounds == ["base", "head", "control", "control", "head", "base"]


@pytest.mark.parametrize(
    ("head_seconds", "outcome"), [(0.5, "faster"), (2.0, "slower"), (1.0, "within noise"), (1.01, "within noise")]
)
def test_a_difference_within_what_the_control_shows_is_none(head_seconds: float, outcome: str) -> None:
    timing = StandInDevice(drift=0.01, hiccup=5).timing(1.0, head_seconds)
    assert timing.outcome == outcome
    assert 1.0 < timing.noise < 1.5
    assert timing.best["base"] < 2.0  # a hiccup is never the best


def test_a_steady_device_tells_a_small_difference() -> None:
    assert StandInDevice().timing(1.0, 1.01).outcome == "slower"


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan")])
def test_a_time_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="must be above zero"):
        StandInDevice().timing(1.0, seconds)


def test_two_rounds_and_three_sides_are_needed() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        perf.interleaved(perf.SIDES, 1)
    with pytest.raises(ValueError, match="no timer for control"):
        perf.time_sides({"base": lambda: 1.0, "head": lambda: 1.0})


def case(name: str, status: str, **fields: Any) -> dict[str, Any]:
    record = {"id": f"correctness.{name}", "stage": "correctness", "status": status, "reason": status, "cost": None}
    return record | {"facts": {}, "launches": []} | fields


def judged(*statuses: tuple[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Comparison and verdict of cases with these statuses on the base and on the head."""
    heads = [case(str(i), now) for i, (_, now) in enumerate(statuses)]
    bases = [compare.record(case(str(i), old), compare.RUN) for i, (old, _) in enumerate(statuses)]
    counts = {name: sum(h["status"] == name for h in heads) for name in ("pass", "fail", "error", "skip")}
    worst = next((name for name in ("fail", "error") if counts[name]), "pass")
    stage = {"name": "correctness", "status": worst, "reason": worst, "evidence": "emulated", "settles": True}
    stage |= {"deselected": False, "counts": counts | {"total": len(heads)}, "cases": heads, "planned": len(heads)}
    compared = compare.derive([stage], bases) | {"policy": []}
    return compared, decide([stage], None, (), compared)


@pytest.mark.parametrize(
    ("statuses", "change", "result"),
    [
        ((("pass", "pass"),), "green on both", "PASS"),
        ((("fail", "fail"),), "red on both", "PASS"),
        ((("fail", "pass"),), "newly green", "PASS"),
        ((("pass", "fail"),), "newly red", "FAIL"),
        ((("pass", "error"),), "newly red", "INCONCLUSIVE"),
        ((("error", "fail"),), "not comparable", "FAIL"),
        ((("skip", "fail"),), "not comparable", "FAIL"),
        ((("error", "error"),), "not comparable", "INCONCLUSIVE"),
        ((("fail", "fail"), ("pass", "fail")), "newly red", "FAIL"),
        ((("fail", "fail"), ("pass", "error")), "newly red", "INCONCLUSIVE"),
        ((("fail", "fail"), ("error", "fail")), "not comparable", "FAIL"),
    ],
)
def test_only_a_failure_on_both_is_not_charged(statuses: Any, change: str, result: str) -> None:
    compared, verdict = judged(*statuses)
    assert compared["counts"][change] >= 1
    assert sum(compared["counts"].values()) == len(statuses)
    assert verdict["result"] == result


def test_without_a_base_a_failure_is_a_failure() -> None:
    heads = [case("0", "fail")]
    counts = {"pass": 0, "fail": 1, "error": 0, "skip": 0, "total": 1}
    stage = {"name": "correctness", "status": "fail", "reason": "r", "evidence": "emulated", "settles": True}
    stage |= {"deselected": False, "counts": counts, "cases": heads, "planned": 1}
    assert decide([stage], None, ())["result"] == "FAIL"
