"""Worker side of the instruction vectors: the conformance tests of one file, each call of their harness on both sides.

The vectors are what the tests hand to ``tests/conformance/harness.py``; they exist once, there, so this needs a source
checkout (and pytest). A journal tells the parent what had been done when a GPU takes the worker with it.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from validation import devices
from validation.calibrate.differ import LOST, NOT_COMPARED, Element, compared, row
from validation.calibrate.snippet import SGPRS, SPECIAL, NotComparableError, Region, Snippet, kernel_text, named
from validation.operation import JsonDict

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests" / "conformance"
HARNESS = "tests.conformance.harness"
#: Memory that a vector may touch; more is not copied back and forth.
MOST_BYTES = 1 << 20
#: A wave of a few instructions that is not done by now never is.
HANG_S = 30.0

#: Types of destinations, as the instruction table names them, that are floats of one format in the low bits.
_FLOATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


class NoVectorsError(LookupError):
    """There are no vectors here; the message says what is needed."""


def files() -> list[Path]:
    """The files with vectors; :class:`NoVectorsError` outside of a source checkout, or without pytest."""
    found = sorted(FOLDER.glob("test_*.py"))
    if not found:
        raise NoVectorsError(f"the instruction vectors are in tests/conformance of a source checkout; {ROOT} is none")
    if importlib.util.find_spec("pytest") is None:
        raise NoVectorsError("the instruction vectors need pytest (pip install -e '.[test]')")
    return found


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Run the tests of ``payload["file"]``; the entries go to ``payload["journal"]``, which begins anew.

    ``skip``: how many vectors an earlier worker has dealt with. ``hang_s``: seconds after which one has hung.
    Returns how many vectors there were, and pytest's code.
    """
    sys.path.insert(0, str(ROOT))
    pytest = importlib.import_module("pytest")
    harness = importlib.import_module(HARNESS)
    runner = devices.device(context.device).open_runner(context.arch)  # type: ignore[attr-defined]
    with open(payload["journal"], "w", encoding="utf-8", buffering=1) as journal:
        both = _Both(
            context.arch,
            runner,
            payload["hang_s"],
            payload["skip"],
            lambda entry: print(json.dumps(entry), file=journal),
        )
        harness.AROUND.append(both)
        try:
            options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--rootdir", str(ROOT)]
            code = int(pytest.main([*options, "-c", str(ROOT / "pyproject.toml"), payload["file"]]))
        finally:
            harness.AROUND.remove(both)
    return {"vectors": both.seen, "pytest": code, "runner": runner.name}


def read_journal(path: Path) -> tuple[list[JsonDict], JsonDict | None, int]:
    """The finished entries of a journal, the one in flight when it broke off, and how many vectors that makes."""
    entries: list[JsonDict] = []
    begun: JsonDict | None = None
    seen = 0
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            break  # the worker died while it wrote
        seen = entry["at"] + 1
        begun = entry if "begun" in entry else None
        if begun is None:
            entries.append(entry["entry"])
    return entries, begun, seen


class _Both:
    """Stands around the harness: lets the emulator run, then the device, from the same state and memory."""

    def __init__(self, arch: str, runner: Any, hang_s: float, skip: int, write: Callable[[JsonDict], None]) -> None:
        self.arch, self._runner, self._hang_s, self._skip, self._write = arch, runner, hang_s, skip, write
        self.seen = 0

    def __call__(self, run: Callable[..., Any], body: Any, options: Mapping[str, Any]) -> Any:
        bound = inspect.signature(run).bind(body, **options)
        bound.apply_defaults()
        given = bound.arguments
        if given["arch"] != self.arch:
            return run(body, **options)
        text = body if isinstance(body, str) else "\n".join(body)
        regions = list(_regions(given["space"]))
        snippet = None
        try:
            snippet, why = _snippet(given, text, regions), ""
        except NotComparableError as error:
            why = str(error)
        state = run(body, **options)  # what the emulator refuses is no vector
        at, self.seen = self.seen, self.seen + 1
        if state.findings:
            snippet, why = None, "the emulator stops an access in it, which a GPU would carry out"
        if at >= self._skip:
            identity = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
            if snippet is None:
                self._write({"at": at, "entry": row("vector", identity, text.strip(), NOT_COMPARED, why)})
            else:
                self._write({"at": at, "begun": identity, "what": text.strip()})
                self._write({"at": at, "entry": self._on_device(identity, snippet, state)})
        return state

    def _on_device(self, identity: str, snippet: Snippet, state: Any) -> JsonDict:
        emulated = [ctypes.string_at(region.address, len(region.before)) for region in snippet.regions]
        for region in snippet.regions:
            ctypes.memmove(region.address, region.before, len(region.before))
        faulthandler.dump_traceback_later(self._hang_s, exit=True, file=2)
        try:
            image = self._runner.run(kernel_text(snippet), self.arch, snippet.image(), snippet.regions)
        except NotComparableError as error:
            return row("vector", identity, snippet.body.strip(), NOT_COMPARED, str(error))
        except Exception as error:  # of whatever kind: this vector is lost, the next one is tried
            return row("vector", identity, snippet.body.strip(), LOST, f"{type(error).__name__}: {error}"[:500])
        finally:
            faulthandler.cancel_dump_traceback_later()
            memory = [ctypes.string_at(region.address, len(region.before)) for region in snippet.regions]
            for region, content in zip(snippet.regions, emulated, strict=True):
                ctypes.memmove(region.address, content, len(content))
        return _judge(identity, snippet, state, image, emulated, memory)


def _regions(space: Any) -> Iterator[Region]:
    for allocation in space.allocations if space is not None else ():
        small = allocation.size <= MOST_BYTES
        before = ctypes.string_at(allocation.base, allocation.size) if small else b""
        yield Region(allocation.name or "memory", allocation.base, before)


def _snippet(given: Mapping[str, Any], text: str, regions: list[Region]) -> Snippet:
    """The data of one call of the harness."""
    harness = sys.modules[HARNESS]
    if any(not region.before for region in regions):
        raise NotComparableError(f"it has more than {MOST_BYTES} bytes of memory")
    if any(register >= SGPRS for register in given["s"] or ()):
        raise NotComparableError(f"it sets scalar registers beyond s{SGPRS - 1}")
    vectors = {}
    for kind, count in (("v", given["vgprs"]), ("a", given["agprs"])):
        vectors[kind] = np.zeros((count, 64), np.uint32)
        if kind == "v":
            vectors[kind][0] = range(64)  # what a launch leaves there
        for register, values in (given[kind] or {}).items():
            vectors[kind][register] = harness.lanes(values)
    scalars = np.zeros(SGPRS, np.uint32)
    for register, value in (given["s"] or {}).items():
        scalars[register] = value & 0xFFFFFFFF
    low = 0xFFFFFFFF
    vcc, mask = given["vcc"], given["exec_"]
    special = {"vcc_lo": vcc & low, "vcc_hi": vcc >> 32, "exec_lo": mask & low, "exec_hi": mask >> 32}
    special |= {"m0": given["m0"] & low, "scc": int(given["scc"])}
    raw = given["lds"] if given["lds"] is not None else b""
    filled = bytes(raw) if isinstance(raw, bytes | bytearray) else np.ascontiguousarray(raw).tobytes()
    return Snippet(
        given["arch"], text, vectors["v"], vectors["a"], scalars, special, filled.ljust(given["lds_bytes"], b"\0"),
        _mode(given["mode"]), given["scratch_bytes"], tuple(regions),
    )  # fmt: skip


def _mode(mode: Any) -> dict[str, int]:
    """Directives for a float mode; that of the harness keeps all denormals."""
    if mode is None:
        return {"float_denorm_mode_32": 3}
    fields = {
        "float_round_mode_32": mode.round_32, "float_round_mode_16_64": mode.round_16_64,
        "float_denorm_mode_32": mode.denorm_32, "float_denorm_mode_16_64": mode.denorm_16_64,
        "dx10_clamp": mode.dx10_clamp, "ieee_mode": mode.ieee, "fp16_overflow": mode.fp16_overflow,
    }  # fmt: skip
    return {name: int(value) for name, value in fields.items()}


def _judge(
    identity: str, snippet: Snippet, state: Any, image: Any, emulated: list[bytes], memory: list[bytes]
) -> JsonDict:
    """Every word of the state and every byte of memory against each other."""
    scalars = {"vcc_lo": state.vcc, "vcc_hi": state.vcc >> 32, "exec_lo": state.exec_, "exec_hi": state.exec_ >> 32}
    scalars |= {"m0": state.s[124], "scc": int(state.scc)}
    expected = {name: np.array([scalars[name] & 0xFFFFFFFF], np.uint32) for name in SPECIAL}
    expected |= {"s": np.array(state.s[:SGPRS], np.uint32), "v": state.v, "a": state.a}
    expected["lds"] = state.lds.view(np.uint32).reshape(-1, 64)
    got = named(snippet, image)
    found: list[Element] = []
    elements = 0
    for name, words in expected.items():
        elements += words.size
        for place in np.argwhere(words != got[name]):
            index = tuple(int(i) for i in place)
            found.append(_element(snippet, name, index, int(words[index]), int(got[name][index])))
    for region, ours, theirs in zip(snippet.regions, emulated, memory, strict=True):
        elements += len(ours)
        at = np.flatnonzero(np.frombuffer(ours, np.uint8) != np.frombuffer(theirs, np.uint8))
        found += [Element(f"{region.name} byte {i}", ours[i], theirs[i], 8) for i in at]
    return compared("vector", identity, snippet.body.strip(), elements, found)


def _element(snippet: Snippet, name: str, index: tuple[int, ...], ours: int, theirs: int) -> Element:
    if name in SPECIAL:
        return Element(name, ours, theirs, 32)
    if name == "s":
        return Element(f"s{index[0]}", ours, theirs, 32)
    if name == "lds":
        return Element(f"lds byte {4 * (64 * index[0] + index[1])}", ours, theirs, 32)
    where, kind = f"{name}{index[0]}[{index[1]}]", _format(snippet)
    if kind in ("float16", "bfloat16") and ours >> 16 == theirs >> 16:
        return Element(f"{where} low half", ours & 0xFFFF, theirs & 0xFFFF, 16, kind)
    return Element(where, ours, theirs, 32, kind if kind == "float32" else None)


def _format(snippet: Snippet) -> str | None:
    """The float format of the result of the only instruction; ``None`` for several, or for no float."""
    from validation.emulator.isa import TABLE  # only in a worker

    entry = TABLE.get((snippet.arch, snippet.mnemonics[0])) if len(snippet.mnemonics) == 1 else None
    if entry is None:
        return None
    result = entry.options.get("result") or (entry.dst[0] if entry.dst else "")
    return _FLOATS.get(re.sub(r"\W.*", "", str(result)))
