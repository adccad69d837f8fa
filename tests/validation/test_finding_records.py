"""What the report says of a finding names files of this project relative to its root, in every field."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.emulator.race.probe import Buffers, text
from validation.devices.emulator import finding_record, open_bench
from validation.emulator import DeadlockError, launch

ROOT = Path(__file__).resolve().parents[2]
#: Waves of one workgroup write data[0] without an order, from two lines of a file.
RACE = """
.loc 1 7 0
global_store_dword v4, v0, s[4:5]
.loc 1 8 0
global_load_dword v6, v4, s[4:5]
s_waitcnt vmcnt(0)"""
STUCK = """
again:
.loc 1 9 0
global_load_dword v6, v4, s[6:7] sc1
s_waitcnt vmcnt(0)
s_branch again"""


def program(body: str, arch: str, folder: Path) -> str:
    return text(body, arch).replace('"/src/kernels"', f'"{folder}"')


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_messages_name_files_of_the_project_from_its_root(arch: str) -> None:
    buffers = Buffers.make()
    asm = program(RACE, arch, ROOT / "hcgr" / "kernels")
    found = launch(asm, "probe", (1,), (128,), buffers.args, space=buffers.space, checks=("racecheck",)).findings
    records = [finding_record(f) for f in found]
    assert any("(hcgr/kernels/probe.py:7)" in record["message"] for record in records), records
    assert all(record["source_file"] == "hcgr/kernels/probe.py" for record in records)
    assert str(ROOT) not in str(records)


def test_other_files_keep_their_whole_path() -> None:
    buffers = Buffers.make()
    asm = program(RACE, "gfx942", Path("/elsewhere/hcgr"))
    found = launch(asm, "probe", (1,), (128,), buffers.args, space=buffers.space, checks=("racecheck",)).findings
    assert any("(/elsewhere/hcgr/probe.py:7)" in finding_record(f)["message"] for f in found), found


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_deadlock_too(arch: str) -> None:
    buffers = Buffers.make()
    asm = program(STUCK, arch, ROOT / "hcgr" / "kernels")
    with pytest.raises(DeadlockError) as caught:
        launch(asm, "probe", (1,), (64,), buffers.args, space=buffers.space)
    blamed = open_bench(arch).blame(caught.value)
    assert blamed is not None
    assert "(hcgr/kernels/probe.py:9)" in blamed[0]
    assert str(ROOT) not in blamed[0]
