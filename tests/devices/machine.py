"""A machine with GPUs that are files: what the kernel's driver would show below /sys, /proc and /dev."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from validation.devices.kfd import System

TARGETS = {"gfx942": 90402, "gfx950": 90500, "gfx90a": 90010}
#: A character device with the major number that the fake list of drivers gives to kfd.
NULL, NULL_MAJOR = "/dev/null", 1


@dataclass(frozen=True)
class Machine:
    """Files below ``root``; GPU ``n`` has the PCI bus ``0xc0 + n`` and the KFD number ``1000 + n``."""

    root: Path

    @property
    def system(self) -> System:
        return System(self.root / "sys", self.root / "proc", self.root / "dev", gap_s=0.0)

    def pci(self, gpu: int) -> Path:
        return self.system.pci(f"0000:{0xC0 + gpu:02x}:00.0")

    def busy(self, gpu: int, percent: str) -> None:
        (self.pci(gpu) / "gpu_busy_percent").write_text(percent)

    def queue(self, gpu: int, process: int = 77) -> None:
        folder = self.system.users / str(process) / "queues" / "0"
        folder.mkdir(parents=True)
        (folder / "gpuid").write_text(f"{1000 + gpu}\n")

    def drive(self, gpu: int, driver: str = "amdgpu", vendor: str = "0x1002") -> None:
        folder = self.pci(gpu)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "driver").unlink(missing_ok=True)
        (folder / "driver").symlink_to(f"../../drivers/{driver}")

    def open_driver(self) -> None:
        """This process has the driver's node open, as the real HIP has."""
        (self.system.proc / "self/fd/5").symlink_to(self.system.kfd)


def build(root: Path, *arches: str, unique: bool = True) -> Machine:
    """A machine with one CPU node and idle GPUs of ``arches``."""
    machine = Machine(root)
    system = machine.system
    for folder in (system.dev, system.proc / "self/fd", system.nodes / "0", system.users):
        folder.mkdir(parents=True)
    system.kfd.symlink_to(NULL)
    (system.proc / "devices").write_text(f"Character devices:\n  {NULL_MAJOR} kfd\n 10 misc\n")
    (system.proc / "self/maps").write_text(
        "7f00-7f01 r-xp 00000000 00:00 1    /usr/lib/libc.so.6\n7f02-7f03 rw-p 0 0:0 0\n"
    )
    (system.nodes / "0/gpu_id").write_text("0\n")
    for number, arch in enumerate(arches):
        node = system.nodes / str(number + 1)
        node.mkdir()
        (node / "gpu_id").write_text(f"{1000 + number}\n")
        words = {
            "simd_count": 1216,
            "domain": 0,
            "location_id": (0xC0 + number) << 8,
            "gfx_target_version": TARGETS[arch],
        }
        words["unique_id"] = 0xABC0 + number if unique else 7
        (node / "properties").write_text("".join(f"{key} {value}\n" for key, value in words.items()))
        machine.pci(number).mkdir(parents=True)
        machine.busy(number, "0\n")
        machine.drive(number)
    machine.open_driver()
    return machine
