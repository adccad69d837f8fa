"""Calibration as a whole, against a stand-in that answers from the emulator and goes wrong when told to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.calibrate import standin, tiny
from tests.calibrate.fake_hip import FakeRunner
from validation.calibrate import run, vectors
from validation.calibrate.differ import NOT_COMPARED, row
from validation.calibrate.run import Work, calibrate
from validation.calibrate.snippet import NotComparableError, Region
from validation.cases import Outcome
from validation.cli import main
from validation.report.calibration import calibration_lines
from validation.report.check import problems
from validation.report.digest import digest
from validation.report.show import FORMATS
from validation.stages import Request, correctness

STANDIN = "tests.calibrate.standin"
FEW = Path(__file__).parent / "vectors"


class Quiet:
    def stage_started(self, arch: str, title: str, total: int) -> None:
        pass

    def case_done(self, arch: str, record: dict[str, Any]) -> None:
        pass


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "FOLDER", FEW)
    monkeypatch.setattr(run, "EMULATOR", "tests.calibrate.standin_emulator")


def calibrated(monkeypatch: pytest.MonkeyPatch, faults: Any, arch: str = "gfx942", hang_s: float = 300.0) -> Any:
    """The vectors alone, on a device with these faults."""
    monkeypatch.setenv(standin.FAULTS, json.dumps(faults))
    return calibrate(Work(arch, STANDIN, 1, (), hang_s), standin.claim(arch), Quiet())


def of(part: Any, kind: str, status: str) -> list[Any]:
    return [entry for entry in part["entries"] if (entry["kind"], entry["status"]) == (kind, status)]


@pytest.mark.parametrize(("arch", "begun"), [("gfx942", False), ("gfx950", True)])
def test_equal_devices_have_no_difference(monkeypatch: pytest.MonkeyPatch, arch: str, begun: bool) -> None:
    """Nor does a file that is ``begun`` again count twice."""
    file_task = run._file_task

    def begun_before(*arguments: Any) -> Any:
        task = file_task(*arguments)
        entry = row("vector", "test", "v_nop", NOT_COMPARED, "of the first try")
        Path(task.payload["journal"]).write_text(json.dumps({"at": 0, "entry": entry}) + "\n")
        return task

    if begun:
        monkeypatch.setattr(run, "_file_task", begun_before)
    part = calibrated(monkeypatch, [], arch=arch)
    assert part["counts"]["vector"] == {"equal": 6, "different": 0, "lost": 0, "not compared": 2}
    assert [entry["reason"] for entry in part["entries"]] == [
        "s_memtime reads a clock",
        "the emulator stops an access in it, which a GPU would carry out",
    ]
    assert part["runner"] == "stand-in; text"


def test_injected_differences_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [("v_add_f32", "flip"), ("v_add_f16", "flip"), ("s_cselect_b32 s3", "flip"), ("s_load_dword s4", "memory")]
    part = calibrated(monkeypatch, [*faults, ("v_mul_f32", "refuse")])
    assert part["counts"]["vector"] == {"equal": 0, "different": 4, "lost": 2, "not compared": 2}
    add, half, scalar, memory = of(part, "vector", "different")
    assert add["id"] == "tests/calibrate/vectors/test_few.py::test_float_results[gfx942]"
    assert (add["what"], add["differing"], add["max_ulps"]) == ("v_add_f32_e32 v1, v2, v3", 1, 1)
    assert add["worst"] == [{"where": "v1[5]", "emulator": "0x40400000", "device": "0x40400001", "ulps": 1}]
    assert half["worst"] == [{"where": "v1[5] low half", "emulator": "0x4000", "device": "0x4001", "ulps": 1}]
    assert (scalar["max_ulps"], scalar["worst"][0]["where"]) == (None, "v1[5]")
    (byte,) = memory["worst"]
    assert byte["where"].startswith("t byte ")
    assert byte["device"] == "0xee"
    for lost in of(part, "vector", "lost"):
        assert lost["what"] == "v_mul_f32_e32 v1, v2, v3"
        assert lost["reason"] == "GpuError: hipModuleLaunchKernel failed with HIP error 719"


def test_a_crash_and_a_hang_cost_one_vector_each(monkeypatch: pytest.MonkeyPatch) -> None:
    part = calibrated(monkeypatch, [("v_add_f16", "crash"), ("s_cselect_b32 s3", "hang")], hang_s=4.0)
    crashed, hung = of(part, "vector", "lost")
    assert crashed["what"] == "v_add_f16_e32 v1, v2, v2"
    assert crashed["reason"].startswith("worker killed by SIGABRT")
    assert hung["what"].startswith("s_cselect_b32 s3, s4, s5")
    assert hung["reason"].startswith("worker ended with exit code 1")
    assert part["counts"]["vector"] == {"equal": 4, "different": 0, "lost": 2, "not compared": 2}


def test_a_device_that_loses_everything_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MOST_LOSSES", 1)
    part = calibrated(monkeypatch, [("s_endpgm", "crash")])
    first, rest = of(part, "vector", "lost")
    assert first["what"] == "v_add_f32_e32 v1, v2, v3"
    assert rest["reason"].startswith("the rest of the file was not run: worker killed by SIGABRT")
    assert part["counts"]["vector"]["equal"] == 0


def test_a_file_whose_outcome_is_taken_back_is_lost_with_what_its_worker_wrote(tmp_path: Path) -> None:
    class Revised:
        """A pool whose worker ends a file well, and answers for it again."""

        def run(self, tasks: Any, modules: Any) -> Any:
            (task,) = tasks
            entry = row("vector", "test", "v_nop", NOT_COMPARED, "a reason")
            Path(task.payload["journal"]).write_text(json.dumps({"at": 0, "entry": entry}) + "\n")
            yield task, Outcome({"vectors": 1, "pytest": 0, "runner": "stand-in"})
            yield task, Outcome(None, "worker answered again for this case")

    revised: Any = Revised()
    names: dict[str, str] = {}
    entries = run._vectors(Work("gfx942", STANDIN, 1, ()), revised, tmp_path, Quiet(), names)
    said = [(entry["id"], entry["status"], entry["reason"]) for entry in entries]
    assert said == [("test_few.py", "lost", "worker answered again for this case")]
    assert names == {}


def test_memory_that_the_device_sees_elsewhere_is_not_compared() -> None:
    runner = FakeRunner([("here", "elsewhere")])
    region = Region("t", 1 << 20, b"1234")
    with pytest.raises(NotComparableError, match="memory of the host at another address"):
        runner.run("here", "gfx942", np.zeros((2, 64), np.uint32), [region])
    assert [runner.hip.buffers, runner.hip.registered, runner.hip.loaded] == [{}, {}, {}]


def test_kernel_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "files", list)
    monkeypatch.setenv(standin.FAULTS, "[]")
    tasks = correctness.plan(Request(tiny.OPERATION, "tests.calibrate.tiny:OPERATION", "gfx942", 0))
    tasks = [replace(task, timeout_s=3.0 if "stuck" in task.id else 300.0) for task in tasks]
    part = calibrate(Work("gfx942", STANDIN, 1, tasks), standin.claim("gfx942"), Quiet())
    assert part["counts"]["kernel"] == {"equal": 1, "different": 2, "lost": 4, "not compared": 1}
    entries = {entry["id"].split(".")[2]: entry for entry in part["entries"] if entry["kind"] == "kernel"}
    off = entries["off"]
    assert (off["elements"], off["differing"], off["max_ulps"]) == (150, 2, 2)
    assert [(each["where"], each["ulps"]) for each in off["worst"]] == [("x[1, 7]", 2), ("x[2, 0]", 1)]
    assert (entries["nan"]["max_ulps"], entries["nan"]["worst"][0]["where"]) == (None, "x[0, 3]")
    assert entries["sparse"]["reason"] == "not on the GPU: this needs sparse memory"
    assert entries["dead"]["reason"].startswith("on the GPU: worker killed by SIGABRT")
    assert entries["stuck"]["reason"].startswith("on the GPU: timed out after 3.")
    assert entries["unseen"]["reason"] == "0 launches were seen on the GPU, 1 on the emulator"
    assert entries["shorter"]["reason"] == "the outputs differ in names, shapes or dtypes"


def test_the_command_writes_it_into_the_report(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    monkeypatch.setenv(standin.FAULTS, json.dumps([("v_add_f32", "flip")]))
    path = tmp_path / "out.json"
    arguments = ["--op", "tests.calibrate.tiny:FINE", "--arch", "gfx942", "--jobs", "1", "--report", str(path)]
    code = main([*arguments, "--only", "correctness", "--calibrate"], (STANDIN,))
    shown = capsys.readouterr().out
    assert code == 0, shown
    assert "instruction vectors: 5 equal, 1 different, 0 lost, 2 not compared" in shown
    assert "v1[5] is 0x40400000 in the emulator, 0x40400001 on the GPU" in shown
    report = json.loads(path.read_text())
    assert problems(report) == []
    assert "### Calibration" in FORMATS["markdown"](report)
    assert "instruction vectors: 5 equal, 1 different, 0 lost, 2 not compared" in FORMATS["text"](report)
    page = FORMATS["html"](report)
    assert '<a href="#calibration">Calibration</a>' in page
    assert '<h2 id="calibration">' in page
    for words in ("<code>0x40400000</code><td><code>0x40400001</code>", "v1[5]", "<b>not compared</b>"):
        assert words in page, words
    assert "<b>lost</b>" not in page
    del report["calibration"]
    assert "alibration" not in FORMATS["html"](report)
    report = json.loads(path.read_text())
    forge(report, lambda part: part["counts"]["vector"].update(different=0), "0 vectors different, its entries give 1")
    forge(report, lambda part: part["entries"].pop(0), "1 vectors different, its entries give 0")
    forge(report, lambda part: part["entries"][0].update(differing=0), "0 of ")
    forge(report, lambda part: part["entries"][0]["worst"][0].update(device="0x40400000"), "is equal on both")
    forge(report, lambda part: part["entries"][0].update(max_ulps=0), "more ULPs than the most")
    forge(report, lambda part: part["entries"][1].update(reason=""), "without a reason")
    forge(report, lambda part: part.update(device="a GPU"), "there was no GPU")


def forge(report: Any, change: Any, said: str) -> None:
    """``report``, changed and digested anew, contradicts itself in these words."""
    forged = json.loads(json.dumps(report))
    change(forged["calibration"])
    forged["digest"] = digest(forged)
    assert any(said in problem for problem in problems(forged)), problems(forged)


def test_without_a_gpu_nothing_is_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    arguments = ["--arch", "gfx942", "--calibrate", "--report", str(path)]
    assert main(arguments, ("tests.calibrate.standin_emulator",)) == 3
    said = capsys.readouterr().err
    assert "--calibrate compares the emulator with a GPU of gfx942, and there is none" in said
    assert "nothing was run" in said
    assert not path.exists()
    assert main(["--arch", "gfx942", "--calibrate", "--shard", "1/2"]) == 2


def test_without_a_checkout_or_an_assembler_nothing_is_run(monkeypatch: Any, tmp_path: Path) -> None:
    def none() -> None:
        raise run.AssemblerError("no assembler for AMD GPUs")

    monkeypatch.setattr(run, "assembler", none)
    with pytest.raises(run.CalibrationError, match="no assembler"):
        run.require_gpu("gfx942", (STANDIN,))
    monkeypatch.setattr(vectors, "FOLDER", tmp_path)
    with pytest.raises(run.CalibrationError, match="tests/conformance of a source checkout"):
        run.require_gpu("gfx942", (STANDIN,))


def test_a_report_without_calibration_says_nothing() -> None:
    assert calibration_lines({}) == []
