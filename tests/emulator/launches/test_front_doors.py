"""Arguments that are none are refused at the front doors, at once, with what was given and what is accepted."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from validation.emulator import emulate, explore, launch

from .texts import text

ASM = text(["s_endpgm"], "gfx942")

#: For both doors: option, its value, error, words.
OPTIONS: dict[str, tuple[str, Any, type[Exception], str]] = {
    "check": ("checks", ("foo",), ValueError, r"unknown check 'foo'; there are memcheck, initcheck, .*"),
    "near check": ("checks", ["memchek"], ValueError, "did you mean memcheck"),
    "check as text": ("checks", "memcheck", TypeError, r"checks takes a sequence of texts.*got 'memcheck' \(str\)"),
    "checks of None": ("checks", None, TypeError, r"checks takes .*got None \(NoneType\)"),
    "check that is none": ("checks", (3,), TypeError, r"checks takes .*got 3 \(int\) in it"),
    "clamp of an int": ("declared_clamps", [3], TypeError, r"declared_clamps takes .*got 3 \(int\) in it"),
    "clamp as text": ("declared_clamps", "a.py:3", TypeError, r"declared_clamps takes .*got 'a.py:3' \(str\)"),
    "empty clamp": ("declared_clamps", [""], ValueError, "declared_clamps takes .*got an empty one"),
    "space": ("space", 5, TypeError, r"space takes an AddressSpace or None, got 5 \(int\)"),
    "workgroups": ("workgroups", 5, TypeError, r"workgroups takes coordinates.*got 5 \(int\)"),
    "workgroups as text": ("workgroups", "012", TypeError, "workgroups takes coordinates.*got '012'"),
    "schedule": ("schedule", "fast", ValueError, "unknown schedule 'fast'; there are lockstep"),
    "schedule of None": ("schedule", None, TypeError, "schedule takes the name of a schedule.*got None"),
    "branch limit": ("branch_limit", 0, ValueError, "branch_limit takes a whole number from 1 on, got 0"),
    "branch limit of text": ("branch_limit", "9", TypeError, "branch_limit takes a whole number.*got '9'"),
    "bound views": ("bound_views", "no", TypeError, "bound_views takes True or False, got 'no'"),
    "completion": ("completion", "never", ValueError, "completion='never'; there are earliest, latest"),
    "memory": ("memory", None, ValueError, "memory=None; there are flat, weak"),
    "xcds": ("xcds", "8", TypeError, "xcds='8'; it takes a whole number"),
    "no xcds": ("xcds", 0, ValueError, "xcds=0; it takes a whole number from 1 on"),
    "half a CU": ("cus_per_xcd", 0.5, TypeError, "cus_per_xcd=0.5; it takes a whole number"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_of_launch(case: str) -> None:
    name, value, error, words = OPTIONS[case]
    with pytest.raises(error, match=words):
        launch(ASM, None, (1,), (64,), [None], **{name: value})


@pytest.mark.parametrize("case", OPTIONS)
def test_options_of_emulate(case: str) -> None:
    name, value, error, words = OPTIONS[case]
    entered = False
    with pytest.raises(error, match=words), emulate(**{name: value}):
        entered = True
    assert not entered


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"arch": "gfx90a"}, ValueError, "unknown arch 'gfx90a'; there are gfx942, gfx950"),
        ({"arch": 942}, TypeError, r"arch takes one of gfx942, gfx950; got 942 \(int\)"),
        ({"concurrent": 1}, TypeError, "concurrent takes True or False, got 1"),
        ({"compltion": "latest"}, TypeError, "unknown option 'compltion'; .*did you mean completion"),
        ({"checks": ("racecheck",), "completion": "latest"}, ValueError, "run it with completion='earliest'"),
    ],
)
def test_what_only_emulate_takes(options: dict[str, Any], error: type[Exception], words: str) -> None:
    entered = False
    with pytest.raises(error, match=words), emulate(**options):
        entered = True
    assert not entered


#: Positions of ``launch`` and ``Session.launch``: asm, kernel, grid, block, args.
POSITIONS: dict[str, tuple[int, Any, type[Exception], str]] = {
    "no text": (0, None, TypeError, r"asm takes .*, got None \(NoneType\)"),
    "bytes": (0, b"s_endpgm", TypeError, r"asm takes .*, got b's_endpgm' \(bytes\)"),
    "kernel": (1, 5, TypeError, r"kernel takes the name .*got 5 \(int\)"),
    "grid": (2, None, ValueError, "grid takes one to three positive sizes, as in .*got None"),
    "block": (3, 64, ValueError, "block takes one to three positive sizes, as in .*got 64"),
    "args of None": (4, None, TypeError, r"args takes a list or tuple.*got None \(NoneType\)"),
    "args of text": (4, "x", TypeError, r"args takes a list or tuple.*got 'x' \(str\)"),
    "one tensor": (4, torch.zeros(1), TypeError, r"args takes a list or tuple.*got tensor.*\(Tensor\)"),
    "a mapping": (4, {"x": 1}, TypeError, r"args takes a list or tuple.*\(dict\)"),
    "an argument": (4, [object()], TypeError, r"argument 0 .*takes a tensor, None or an address, got <object"),
}


@pytest.mark.parametrize("case", POSITIONS)
@pytest.mark.parametrize("door", ["launch", "session"])
def test_positions(case: str, door: str) -> None:
    position, value, error, words = POSITIONS[case]
    given: list[Any] = [ASM, None, (1,), (64,), [None]]
    given[position] = value
    if door == "launch":
        with pytest.raises(error, match=words):
            launch(*given)
        return
    with emulate() as session, pytest.raises(error, match=words):
        session.launch(*given)
    assert not session.launches


def test_streams_are_streams_or_handles() -> None:
    with emulate() as session, pytest.raises(TypeError, match=r"stream takes a Stream.*got 'side' \(str\)"):
        session.launch(ASM, None, (1,), (64,), [None], stream="side")


def test_accepted_forms_run() -> None:
    """The other side: what is accepted, in each of its forms."""
    launch(
        ASM, None, [1], (64, 1), (None,), checks=["memcheck"], declared_clamps={"a.py:3"}, workgroups=iter([(0, 0, 0)])
    )
    with emulate("gfx942", checks=[], workgroups=iter([(0, 0, 0)]), cus_per_xcd=1) as session:
        session.launch(ASM, None, (1,), (64,), [None], stream=3)
        session.launch(ASM, None, (1,), (64,), [None])
    assert [result.workgroups_run for result in session.launches] == [1, 1]


def test_schedules_of_explore_are_names() -> None:
    with pytest.raises(TypeError, match="schedules takes a sequence of texts"):
        explore(lambda schedule: ({}, []), "lockstep")
