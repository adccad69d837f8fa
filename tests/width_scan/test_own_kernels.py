"""The scanner on this project's own kernels, and the emulator's word on what it says."""

from __future__ import annotations

import json

import pytest

from hcgr.arch import ARCHS
from tests.forked import run_module
from validation.mutation.edit import ROOT
from validation.mutation.manifest import Mutant, load_corpus
from validation.width_scan import scan_paths, scan_source

from .witness_worker import MUTANTS

OVERFLOWS = [mutant for mutant in load_corpus().mutants if mutant.defect_class == "int32-overflow"]
#: Overflows that the scanner takes for safe: within its limits (`hcgr-width-scan --limits`) they do not happen.
BEYOND_LIMITS = {
    "int32-overflow/fused-packed": "1 M rows x a narrow row: it takes tens of millions of rows",
    "int32-overflow/split-k-partials": "1 M rows x a narrow row: it takes tens of millions of rows",
    "int32-overflow/reduce-partials": "64 parts of 1 M rows x a narrow row: it takes tens of millions of rows",
    "int32-overflow/skinny-stride": "a row stride of 2^31 elements: the limit is 2^18, one row of a vocabulary",
}


def test_the_kernels_are_clean() -> None:
    result = scan_paths([ROOT / "hcgr", ROOT / "hcgr_examples"])
    assert (result.findings, result.suppressed, result.unread) == ([], [], [])
    assert sum(file.kernels for file in result.files) >= 10


@pytest.mark.parametrize("mutant", OVERFLOWS, ids=lambda mutant: mutant.name)
def test_overflows_of_the_corpus_are_found_in_their_file(mutant: Mutant) -> None:
    sources = mutant.edited()
    found = {
        file: [finding.rule for finding in scan_source(text, str(ROOT / file)).errors] for file, text in sources.items()
    }
    expected = [] if mutant.name in BEYOND_LIMITS else ["product"]
    assert list(found.values()) == [expected]


@pytest.mark.parametrize("arch", ARCHS)
def test_the_machine_code_overflows_at_the_witness_and_not_below(arch: str) -> None:
    done = run_module("tests.width_scan.witness_worker", arch, timeout=300)
    assert done.returncode == 0, done.stderr
    for said, strided in zip(json.loads(done.stdout), MUTANTS.values(), strict=True):
        row, ran = said["witness"]["row"], said["ran"]
        assert row * said["witness"][said["stride"]] == 2**31
        assert any(finding.startswith("memcheck: global load") for finding in ran[f"broken {row}"]), strided
        assert ran[f"broken {row - 1}"] == ran[f"real {row}"] == ran[f"real {row - 1}"] == []
