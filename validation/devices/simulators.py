"""Whether what looks like a GPU is one. A simulator's evidence is ``emulated``, whoever wrote the simulator.

Known ways to simulate an AMD GPU for programs: a library in front of the C library that answers for ``/dev/kfd``, a
model library in the place of the driver, and a ``libamdhip64`` that never asks the driver. So hardware must show
itself: a device node of the kernel's own driver, a PCI function that the driver is bound to, and a HIP library that has
opened that node. None of this stops who fakes all of it on purpose.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from validation.devices.kfd import Gpu, System

#: Parts of file names of simulators that are known to pass for a GPU.
NAMES = ("rocjitsu", "pantheonsim")
#: Variables through which a library is put in front of another.
LIBRARIES = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT")
#: With one of these, AMD's thunk library (libhsakmt) or a simulator's answers from a model instead of the driver.
MODELS = ("HSA_MODEL_LIB", "HSA_MODEL_TOPOLOGY", "HSAKMT_SIM_LIB", "RJ_CONFIG")
#: A preloaded library with this in it answers for the driver.
NODE = b"/dev/kfd"
VENDOR, DRIVER = 0x1002, "amdgpu"


def named(system: System, environment: Mapping[str, str]) -> str | None:
    """A simulator that this process was told to load, or has loaded; ``None`` if there is no sign of any."""
    for variable in MODELS:
        if environment.get(variable):
            return f"{variable} is {environment[variable]!r}: a model stands in the place of the driver"
    for variable in LIBRARIES:
        for name in NAMES:
            if name in environment.get(variable, "").lower():
                return f"{variable} holds {environment[variable]!r}, a simulator"
    for path in environment.get("LD_PRELOAD", "").replace(":", " ").split():
        if _answers_for_the_driver(Path(path)):
            return f"LD_PRELOAD holds {path!r}, which knows the driver's device node: a simulator, or a tracer like one"
    try:
        mapped = {line.split(maxsplit=5)[5] for line in _lines(system.proc / "self/maps") if line.count("/")}
    except (OSError, IndexError) as error:
        return f"what this process has loaded cannot be told: {error}"
    for path in sorted(mapped):
        if any(name in path.lower() for name in NAMES):
            return f"{path.strip()} is loaded, a simulator"
    return None


def _answers_for_the_driver(path: Path) -> bool:
    try:
        return NODE in path.read_bytes()
    except OSError:
        return False  # the loader cannot load it either, or finds it elsewhere by name: then it is among the mapped


def not_driven(gpu: Gpu, system: System) -> str | None:
    """What is missing of a GPU that the kernel's own driver runs; ``None`` if nothing is."""
    try:
        status = system.kfd.stat()
        majors = [line.split()[0] for line in _lines(system.proc / "devices") if line.split()[1:] == ["kfd"]]
        if not stat.S_ISCHR(status.st_mode) or str(os.major(status.st_rdev)) not in majors:
            return f"{system.kfd} is no device of the kernel's kfd driver"
        folder = system.pci(gpu.pci)
        vendor = int((folder / "vendor").read_text(), 16)
        driver = Path(os.readlink(folder / "driver")).name
    except (OSError, ValueError) as error:
        return f"no PCI function of a GPU stands behind it: {error}"
    if (vendor, driver) != (VENDOR, DRIVER):
        return f"behind it stands a PCI function of vendor {vendor:#06x} with driver {driver}, not {DRIVER}"
    return None


def hip_without_driver(system: System) -> str | None:
    """After HIP has started in this process: whether it works without the driver, which no GPU does."""
    try:
        links = [os.readlink(link) for link in (system.proc / "self/fd").iterdir() if link.is_symlink()]
    except OSError as error:
        return f"what this process has opened cannot be told: {error}"
    if str(system.kfd) not in links:
        return f"HIP works here without having opened {system.kfd}"
    return None


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()
