"""HCGR's protocol scenarios: the catalogue without running it, and a few scenarios and broken variants for real."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any

import pytest

from validation import devices
from validation.devices.pool import Pool
from validation.mutation.edit import ROOT, edited_sources
from validation.operation import resolve_reference
from validation.ops.hcgr import OPERATION
from validation.ops.protocol.catalogue import SCENARIOS
from validation.protocol import CHECKS, Scenario, Tooth, all_teeth
from validation.report.protocol import protocol_problems
from validation.stages import STAGES, Request, protocol

TEETH = [pytest.param(scenario, tooth, id=f"{scenario.name}.{tooth.name}") for scenario, tooth in all_teeth(SCENARIOS)]
EMULATOR = "validation.devices.emulator"
#: Scenarios and broken variants that run here; ``hcgr-validate`` runs all of them on both architectures.
EXECUTED = {
    "gfx942": ("devices", "devices.no_device_in_key", "publication.no_wait_before_arrival", "path_combine"),
    "gfx950": ("pinned_bound", "two_streams.default_stream_fill", "publication.plain_stores"),
}


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenarios_can_be_found_and_told_apart(scenario: Scenario) -> None:
    assert resolve_reference(scenario.run).__doc__
    assert scenario.proves
    names = [tooth.name for tooth in scenario.teeth]
    assert len(set(names)) == len(names)
    assert sum(other.name == scenario.name for other in SCENARIOS) == 1


@pytest.mark.parametrize(("scenario", "tooth"), TEETH)
def test_every_patch_fits_the_sources(scenario: Scenario, tooth: Tooth) -> None:
    texts = edited_sources(tooth.edits)
    assert all(text != (ROOT / file).read_text() for file, text in texts.items())
    assert tooth.check in CHECKS
    in_kernels = any("/kernels/" in file for file in texts) or bool(tooth.asm)
    assert tooth.kernel == in_kernels, "machine code must be compared where, and only where, a kernel is changed"


def test_every_protocol_scenario_has_teeth() -> None:
    assert SCENARIOS
    assert [s.name for s in SCENARIOS if not s.teeth] == []


def test_every_field_of_the_counters_key_has_a_tooth() -> None:
    from hcgr.counters import CounterKey

    names = {tooth.name for _, tooth in all_teeth(SCENARIOS)}
    for field in dataclasses.fields(CounterKey):
        wanted = "captured_in_eager_set" if field.name == "captured" else f"no_{field.name}_in_key"
        assert wanted in names


def test_every_kernel_of_the_op_is_in_a_path_scenario() -> None:
    """The five-stage baseline and the parts that kernels share are no paths of the op."""
    kernels = {path.stem for path in (ROOT / "hcgr/kernels").glob("*.py")}
    shared = {"__init__", "device", "memory", "mfma", "silu", "five_gemm", "five_mix", "five_silu"}
    covered = {"combine", "k1_combine_norm", "k1_decoupled", "k1_fused", "k1_reduce", "k1_skinny", "k1_split_k"}
    assert kernels - shared == covered | {"k1_resident", "k2_up_gate_mix"}


@functools.cache
def executed(arch: str) -> dict[str, dict[str, Any]]:
    """Fragments of the executed cases, by name, from a worker of one arch."""
    plan = Request(OPERATION, "hcgr", arch, 0)
    tasks = [protocol.find(plan, f"protocol.{name}") for name in EXECUTED[arch]]
    environment = devices.device(EMULATOR).worker_environment(arch)
    with Pool(1, arch, EMULATOR, environment) as pool:
        outcomes = {task.id.partition(".")[2]: outcome for task, outcome in pool.run(tasks, STAGES)}
    assert all(outcome.value is not None for outcome in outcomes.values()), outcomes
    return {name: outcome.value for name, outcome in outcomes.items() if outcome.value}


@pytest.mark.parametrize(("arch", "name"), [(arch, name) for arch, names in EXECUTED.items() for name in names])
def test_executed(arch: str, name: str) -> None:
    value = executed(arch)[name]
    assert (value["status"], value["reason"]) == ("pass", "")
    assert list(protocol_problems(value)) == []
    tooth = value["protocol"]["tooth"]
    if tooth is not None:
        scenario, _, broken = name.partition(".")
        aims = next(s for s in SCENARIOS if s.name == scenario).tooth(broken).check
        assert aims in tooth["caught_by"]
        assert tooth["evidence"]
        assert str(Path("/tmp")) not in tooth["evidence"]
