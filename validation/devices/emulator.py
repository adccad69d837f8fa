"""The project's own emulator as a device: the kernels' machine code runs on this CPU, under checkers."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from validation.devices import Claim, receipt
from validation.operation import Workgroups

LEVEL = "emulated"
CHECKS = ("memcheck", "initcheck")

#: What a clean run on this device covered; see the report.
COVERS = {
    "checks": list(CHECKS),
    "schedules": "one: workgroups in order, waves in lockstep; in stage protocol those that its cases list",
    "memory": "flat; in stage protocol weak",
}

BACKEND = "emulator"
_ROOT = Path(__file__).resolve().parents[2]


def claim(arch: str) -> Claim:
    """Available when the emulator is registered as a FlyDSL backend."""
    registered = {entry.name for entry in importlib.metadata.entry_points(group="flydsl.backends")}
    if BACKEND in registered:
        return Claim(BACKEND, LEVEL, True, "registered as a FlyDSL backend")
    return Claim(
        BACKEND,
        LEVEL,
        False,
        "the package is not installed, so FlyDSL does not know the backend 'emulator' (pip install -e .)",
    )


def worker_environment(arch: str) -> dict[str, str]:
    """FlyDSL compiles for ``arch`` through the emulator backend, which puts source lines into the code."""
    return {"ARCH": arch, "FLYDSL_GPU_ARCH": arch, "FLYDSL_COMPILE_BACKEND": BACKEND}


def without_root(text: str) -> str:
    """``text`` with the files of this project named relative to its root."""
    return text.replace(f"{_ROOT}{os.sep}", "")


def finding_record(finding: Any) -> dict[str, Any]:
    """The report's form of an emulator finding; source files of this project relative to its root."""
    record = dict(finding.as_dict())
    record["message"] = without_root(record["message"])
    for key in ("source_file", "via"):
        with contextlib.suppress(ValueError):  # a file from elsewhere keeps its whole path
            record[key] = record[key] and str(Path(record[key]).relative_to(_ROOT))
    for name in ("workgroup", "index"):
        record[name] = list(record[name]) if record[name] is not None else None
    return record


class Session:
    """Receipts and findings of the launches that the emulator has seen, read when asked for."""

    def __init__(self, emulated: Any) -> None:
        self._emulated = emulated

    @property
    def launches(self) -> list[dict[str, Any]]:
        """One receipt a launch."""
        return [
            receipt(r.kernel, r.arch, r.grid, r.block, r.workgroups_run, r.instructions, r.arguments)
            for r in self._emulated.launches
        ]

    @property
    def results(self) -> list[Any]:
        """The emulator's own results, one a launch: instruction mix and traffic counts, if asked for."""
        return list(self._emulated.launches)

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Every finding of every launch, and of the fills and copies between them."""
        return [finding_record(f) for f in self._emulated.findings]

    @property
    def emulated(self) -> Any:
        """The emulator's session: its queue, and what its streams need."""
        return self._emulated


class EmulatorBench:
    """Sparse, guarded memory and sessions under memcheck and initcheck."""

    level = LEVEL
    sparse = True
    whole = False

    def __init__(self, arch: str) -> None:
        from validation.emulator import AddressSpace

        self.arch = arch
        self.space = AddressSpace()
        self._tensors: list[tuple[str, Any]] = []

    def empty(self, shape: Sequence[int], dtype: Any, name: str) -> Any:
        """A contiguous tensor in a mapping of its own; pages take memory when touched."""
        tensor = self.space.empty(tuple(shape), dtype, name)
        self._tensors.append((name, tensor))
        return tensor

    def filled(self, tensor: Any) -> None:
        """The host has written ``tensor``: initcheck need not complain about reads of it."""
        if tensor.numel():
            self.space.mark_written(tensor)

    def named(self, tensor: Any, name: str) -> None:
        """Findings and counts call the memory of ``tensor`` by ``name``."""
        if tensor.numel() and self.space.find(tensor.data_ptr()) is not None:
            self.space.register(tensor, name)

    def guard_damage(self) -> list[str]:
        """Names of tensors beside which a byte of the guard areas is no longer zero."""
        import torch

        damaged = []
        for name, tensor in self._tensors:
            if tensor.numel():
                raw = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
                first = tensor.data_ptr() - raw.data_ptr()
                edges = raw[:first], raw[first + tensor.numel() * tensor.element_size() :]
                if any(bool(edge.any()) for edge in edges):
                    damaged.append(name)
        return damaged

    @contextmanager
    def session(
        self, workgroups: Workgroups = None, checks: Sequence[str] = CHECKS, **options: Any
    ) -> Iterator[Session]:
        """Route FlyDSL launches to the emulator, with this bench's memory and both checks; ``options`` are its own."""
        from validation.emulator import emulate

        with emulate(arch=self.arch, checks=checks, space=self.space, workgroups=workgroups, **options) as emulated:
            yield Session(emulated)

    def blame(self, error: BaseException) -> tuple[str, list[dict[str, Any]]] | None:
        """A kernel fault (or deadlock) accuses the kernel, a launch that hardware refuses the code that launches; what
        the emulator does not support accuses neither."""
        from validation.emulator import KernelFault, LaunchError

        if isinstance(error, KernelFault):
            return without_root(str(error)), [finding_record(f) for f in error.findings]
        if isinstance(error, LaunchError):
            return f"a launch that hardware refuses: {without_root(str(error))}", []
        return None

    def watch_code(
        self, edit: Callable[[str, str], str] = lambda text, kernel: text, run: bool = True
    ) -> AbstractContextManager[dict[str, Any]]:
        """See :func:`watch_code`."""
        return watch_code(edit, run)

    def close(self) -> None:
        """Drop every tensor."""
        self._tensors.clear()


def open_bench(arch: str) -> EmulatorBench:
    """A bench with an empty address space."""
    return EmulatorBench(arch)


@contextmanager
def capture_asm() -> Iterator[list[str]]:
    """Within the block FlyDSL launches run nothing; the assembly text of each is appended to the list."""
    from validation.emulator.flydsl_plugin import runtime

    texts: list[str] = []
    with runtime.launches_to(lambda launch: texts.append(launch.asm)):
        yield texts


@contextmanager
def watch_code(
    edit: Callable[[str, str], str] = lambda text, kernel: text, run: bool = True
) -> Iterator[dict[str, Any]]:
    """Within the block, note the instructions of each kernel that FlyDSL launches: kernel name to tuple of texts.

    ``edit`` is given the assembly and the kernel's name, and returns the assembly to run. Without ``run`` nothing
    runs.
    """
    from validation.emulator.flydsl_plugin import runtime
    from validation.emulator.launch import parse_cached

    code: dict[str, Any] = {}
    edited: dict[str, str] = {}

    def launch(asked: Any) -> None:
        if asked.asm not in edited:
            edited[asked.asm] = edit(asked.asm, asked.kernel)
        text = edited[asked.asm]
        code[asked.kernel] = tuple(instruction.text for instruction in parse_cached(text).instructions)
        if run:
            previous(replace(asked, asm=text))

    previous = runtime.set_launcher(launch)
    try:
        yield code
    finally:
        runtime.set_launcher(previous)
