"""Which GPU a run gets, and what is no GPU: every rule on machines that are files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.devices.machine import Machine, build
from validation.devices import hip, kfd
from validation.devices.gpu_lock import VARIABLE, GpuLock, LockedError

ROOT = Path(__file__).parents[2]
NOT_SEEN_BY_TORCH = hip._not_seen_by_torch


@pytest.fixture(autouse=True)
def _own_claims(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "locks"))
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "LD_PRELOAD", hip.HANDED):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hip, "_not_seen_by_torch", lambda arch: None)
    yield
    for arch in list(hip._HELD):
        hip.release(arch)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    def built(*arches: str, **options: bool) -> Machine:
        made = build(tmp_path / "machine", *arches, **options)
        monkeypatch.setattr(hip, "SYSTEM", made.system)
        return made

    return built


def claimant(machine: Machine, arch: str = "gfx942") -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """Another process, with its claim."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.devices.claimant", str(machine.root), arch],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_an_idle_gpu_of_the_arch_is_claimed_and_handed_to_workers(machine: Any, monkeypatch: Any) -> None:
    machine("gfx950", "gfx942")
    claim = hip.claim("gfx942")
    assert (claim.available, claim.level) == (True, "runtime")
    assert claim.reason == "GPU 1 (gfx942, PCI 0000:c1:00.0), idle and now locked"
    environment = hip.worker_environment("gfx942")
    assert environment[hip.HANDED] == "0000:c1:00.0-1001"
    assert environment["ROCR_VISIBLE_DEVICES"] == "GPU-000000000000abc1"
    assert environment["HIP_VISIBLE_DEVICES"] == "0"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hip, "_HELD", {})  # as in a worker, which must neither lock nor look for idleness
    assert hip.claim("gfx942").reason == "GPU 0000:c1:00.0-1001, which the run has claimed"


def test_a_claim_is_kept_for_the_whole_run(machine: Any) -> None:
    first = machine("gfx942")
    assert hip.claim("gfx942").available
    first.busy(0, "97\n")  # by this very run
    again = hip.claim("gfx942")
    assert again.available
    assert "idle when this run locked it" in again.reason


def test_another_arch_is_no_gpu(machine: Any) -> None:
    machine("gfx90a", "gfx942")
    claim = hip.claim("gfx950")
    assert (claim.available, claim.reason) == (False, "no GPU of arch gfx950 (found: gfx90a, gfx942)")


def test_two_processes_claim_two_gpus_and_a_third_none(machine: Any) -> None:
    there = machine("gfx942", "gfx942")
    one, first = claimant(there)
    two, second = claimant(there)
    assert first["reason"].startswith("GPU 0 ")
    assert second["reason"].startswith("GPU 1 (gfx942, PCI 0000:c1:00.0), idle and now locked (passed over: GPU 0 ")
    assert f"process {one.pid} holds its lock" in second["reason"]
    mine = hip.claim("gfx942")
    assert not mine.available
    assert f"process {one.pid} holds" in mine.reason
    assert f"process {two.pid} holds" in mine.reason
    two.communicate()  # ends, and so does its lock
    assert hip.claim("gfx942").reason.startswith("GPU 1 ")
    one.communicate()


def test_the_lock_of_a_killed_process_is_taken_over(machine: Any) -> None:
    there = machine("gfx942")
    process, claim = claimant(there)
    assert claim["available"]
    assert not hip.claim("gfx942").available
    process.kill()
    process.communicate()
    assert (Path(os.environ[VARIABLE]) / "0000.c0.00.0-1000.lock").exists()  # the file stays and locks nothing
    assert hip.claim("gfx942").available


@pytest.mark.parametrize(
    ("percent", "why"),
    [("12\n", "it is 12% busy"), ("\n", "its activity is unknown"), ("N/A", "its activity is unknown")],
)
def test_a_gpu_that_is_not_known_to_be_idle_is_passed_over(machine: Any, percent: str, why: str) -> None:
    there = machine("gfx942", "gfx942")
    there.busy(0, percent)
    claim = hip.claim("gfx942")
    assert claim.reason.startswith("GPU 1 ")
    assert why in claim.reason
    GpuLock("0000:c0:00.0-1000").release()  # the lock of the first was given back
    hip.release("gfx942")
    there.busy(1, percent)
    claim = hip.claim("gfx942")
    assert not claim.available
    assert claim.reason.startswith("no GPU of arch gfx942 is free: GPU 0 ")


def test_activity_without_a_file_is_unknown(machine: Any) -> None:
    there = machine("gfx942")
    (there.pci(0) / "gpu_busy_percent").unlink()
    assert "its activity is unknown" in hip.claim("gfx942").reason
    there.busy(0, "0")
    there.system.users.rmdir()
    assert "its activity is unknown" in hip.claim("gfx942").reason


def test_every_sample_must_be_zero(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    there = machine("gfx942")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == kfd.SAMPLES - 1:
            there.busy(0, "3")

    monkeypatch.setattr(kfd.time, "sleep", sleep)
    assert "it is 3% busy" in hip.claim("gfx942").reason


def test_a_process_with_a_queue_uses_the_gpu_while_it_waits(machine: Any) -> None:
    there = machine("gfx942", "gfx942")
    there.queue(0)
    claim = hip.claim("gfx942")
    assert claim.reason.startswith("GPU 1 ")
    assert "process 77 has a queue on it" in claim.reason


def test_a_lock_that_cannot_be_opened_is_no_lock(machine: Any, tmp_path: Path) -> None:
    machine("gfx942")
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "0000.c0.00.0-1000.lock").symlink_to(tmp_path / "elsewhere")
    assert "cannot be opened" in hip.claim("gfx942").reason
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_excludes_also_within_a_process() -> None:
    lock = GpuLock("a:b")
    with pytest.raises(LockedError, match=f"process {os.getpid()} holds"):
        GpuLock("a:b")
    lock.release()
    lock.release()
    assert not lock.held
    GpuLock("a:b").release()


@pytest.mark.parametrize(
    ("variables", "reason"),
    [
        ({"ROCR_VISIBLE_DEVICES": "1"}, "GPU 1 "),
        ({"ROCR_VISIBLE_DEVICES": "GPU-000000000000ABC1"}, "GPU 1 "),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, "GPU 2 "),
        ({"HIP_VISIBLE_DEVICES": ""}, "no GPU of arch gfx942 (found: none)"),
        ({"HIP_VISIBLE_DEVICES": "7"}, "HIP_VISIBLE_DEVICES names '7', which is no GPU here (0 or GPU-"),
    ],
)
def test_what_the_user_hides_is_not_claimed(machine: Any, monkeypatch: Any, variables: Any, reason: str) -> None:
    machine("gfx942", "gfx942", "gfx942")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert hip.claim("gfx942").reason.startswith(reason)


def test_partitions_that_share_an_identity_are_told_by_index(machine: Any) -> None:
    machine("gfx942", "gfx942", unique=False)
    assert [gpu.selector for gpu in kfd.gpus(hip.SYSTEM)] == ["0", "1"]
    assert len({gpu.key for gpu in kfd.gpus(hip.SYSTEM)}) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LD_PRELOAD", "/opt/rocjitsu/librocjitsu_kmd.so"),
        ("LD_LIBRARY_PATH", "/usr/lib:/opt/PantheonSim/lib"),
        ("HSA_MODEL_LIB", "libhsakmtmodel.so"),
    ],
)
def test_a_simulator_is_called_emulated(machine: Any, monkeypatch: Any, name: str, value: str) -> None:
    machine("gfx942")
    monkeypatch.setenv(name, value)
    claim = hip.claim("gfx942")
    assert (claim.level, claim.available) == ("emulated", False)
    assert value in claim.reason
    monkeypatch.delenv(name)
    assert hip.claim("gfx942").available


def test_a_preloaded_library_that_answers_for_the_driver_is_a_simulator(
    machine: Any, monkeypatch: Any, tmp_path: Path
) -> None:
    machine("gfx942")
    library = tmp_path / "libharmless.so"
    library.write_bytes(b"\x7fELF open /dev/kfd\0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    assert hip.claim("gfx942").level == "emulated"
    library.write_bytes(b"\x7fELF malloc\0")
    assert hip.claim("gfx942").level == "runtime"


def test_a_loaded_simulator_is_seen_in_the_maps(machine: Any) -> None:
    there = machine("gfx942")
    (there.system.proc / "self/maps").write_text("7f00-7f01 r-xp 0 0:0 1   /home/me/rocjitsu/lib.so\n")
    claim = hip.claim("gfx942")
    assert claim.level == "emulated"
    assert "/home/me/rocjitsu/lib.so is loaded" in claim.reason


def test_a_gpu_without_its_own_driver_is_emulated(machine: Any) -> None:
    there = machine("gfx942")
    there.drive(0, driver="vfio-pci")
    assert "driver vfio-pci, not amdgpu" in hip.claim("gfx942").reason
    there.drive(0, vendor="0x1af4")
    assert "vendor 0x1af4" in hip.claim("gfx942").reason
    (there.pci(0) / "driver").unlink()
    assert "no PCI function of a GPU" in hip.claim("gfx942").reason
    there.drive(0)
    (there.system.proc / "devices").write_text("Character devices:\n 234 kfd\n")
    claim = hip.claim("gfx942")
    assert "is no device of the kernel's kfd driver" in claim.reason
    assert (claim.level, claim.available) == ("emulated", False)


def test_a_hip_that_never_opened_the_driver_is_emulated(machine: Any) -> None:
    there = machine("gfx942")
    (there.system.proc / "self/fd/5").unlink()
    claim = hip.claim("gfx942")
    assert (claim.level, claim.available) == ("emulated", False)
    assert "without having opened" in claim.reason
    there.open_driver()
    assert hip.claim("gfx942").available  # the lock was given back


def test_no_driver_and_a_driver_that_tells_nothing(machine: Any) -> None:
    there = machine("gfx942")
    there.system.kfd.unlink()
    assert hip.claim("gfx942").reason.startswith("no AMD GPU driver: none of ")
    (there.system.dev / "dxg").touch()
    assert "unknown activity is not idle" in hip.claim("gfx942").reason


def test_a_topology_that_cannot_be_read(machine: Any) -> None:
    there = machine("gfx942")
    (there.system.nodes / "1/properties").write_text("simd_count 1\n")
    assert "cannot be read: 'location_id'" in hip.claim("gfx942").reason


def test_torch_must_see_the_arch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["gfx90a"]
    torch = SimpleNamespace(
        __version__="2",
        version=SimpleNamespace(hip=None),
        cuda=SimpleNamespace(
            is_available=lambda: bool(names),
            device_count=lambda: len(names),
            get_device_properties=lambda index: SimpleNamespace(
                name="?", gcnArchName=f"{names[index]}:sramecc+:xnack-"
            ),
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    assert NOT_SEEN_BY_TORCH("gfx942") == "torch 2 is built without HIP; install the ROCm build"
    torch.version.hip = "7"
    assert NOT_SEEN_BY_TORCH("gfx942") == "torch sees no GPU of arch gfx942 (found: gfx90a)"
    names.append("gfx942")
    assert NOT_SEEN_BY_TORCH("gfx942") is None
    names.clear()
    assert NOT_SEEN_BY_TORCH("gfx942") == "torch sees no GPU"


def test_a_gpu_that_torch_cannot_use_is_not_kept(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine("gfx942")
    monkeypatch.setattr(hip, "_not_seen_by_torch", lambda arch: "torch sees no GPU")
    assert hip.claim("gfx942").reason == "torch sees no GPU"
    GpuLock("0000:c0:00.0-1000").release()
