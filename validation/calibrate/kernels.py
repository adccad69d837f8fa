"""One kernel case on one device, its outputs kept for a comparison; and that comparison.

Worker side: :func:`execute`. Parent side, without torch: :func:`compare`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validation.calibrate.differ import FORMATS, LOST, NOT_COMPARED, Element, compared, row
from validation.operation import JsonDict, SkipCase, resolve_reference

#: Elements of one output whose ULPs are counted; more than that differ in everything.
MOST_ELEMENTS = 100_000
_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Run the case as the correctness stage does and write the bits of every output to ``payload["save"]``.

    Returns name to dtype of each output and how many launches were seen, or ``skip``: why it was not run here.
    """
    operation = context.operation(payload["op"])
    entry = operation.entry_point(payload["entry"])
    driver = resolve_reference(entry.driver)()
    if not hasattr(driver, "results"):
        return {"skip": f"the driver {entry.driver} does not tell its outputs apart (it has no results)"}
    with context.bench() as bench:
        bench.whole = payload["whole"]
        try:
            inputs = driver.prepare(entry.grid.decode(payload["case"]), bench, payload["seed"])
        except SkipCase as skipped:
            return {"skip": str(skipped)}
        with bench.session(driver.workgroups(inputs)) as session:
            outputs = driver.run(inputs)
        results = driver.results(inputs, outputs)
        bits = {name: _bits(tensor) for name, tensor in results.items()}
        np.savez(payload["save"], allow_pickle=False, **bits)
        dtypes = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in results.items()}
        return {"dtypes": dtypes, "launches": sum(launch["workgroups_run"] > 0 for launch in session.launches)}


def _bits(tensor: Any) -> NDArray[Any]:
    import torch  # only in a worker

    dense = tensor.detach().cpu().contiguous()
    raw = dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else np.zeros(0, np.uint8)
    return raw.view(_WORDS[dense.element_size()]).reshape(tuple(dense.shape))


def compare(identity: str, kernel: str, emulated: JsonDict, measured: JsonDict, files: tuple[Path, Path]) -> JsonDict:
    """The entry of a case that both sides have run, or why they cannot be compared.

    emulated, measured: what :func:`execute` returned on the emulator and on the GPU; files: what they wrote.
    """
    for side, value in (("the GPU", measured), ("the emulator", emulated)):
        if "skip" in value:
            return row("kernel", identity, kernel, NOT_COMPARED, f"not on {side}: {value['skip']}")
    launches = emulated["launches"], measured["launches"]
    if not all(launches):
        seen = f"{launches[1]} launches were seen on the GPU, {launches[0]} on the emulator"
        return row("kernel", identity, kernel, LOST if any(launches) else NOT_COMPARED, seen)
    with np.load(files[0]) as ours, np.load(files[1]) as theirs:
        if emulated["dtypes"] != measured["dtypes"] or any(ours[name].shape != theirs[name].shape for name in ours):
            return row("kernel", identity, kernel, LOST, "the outputs differ in names, shapes or dtypes")
        elements = sum(int(ours[name].size) for name in ours)
        pairs = [(name, ours[name], theirs[name], emulated["dtypes"][name]) for name in ours]
    if not elements:
        return row("kernel", identity, kernel, NOT_COMPARED, "there is no element to compare")
    differing = sum(int((a != b).sum()) for _, a, b, _ in pairs)
    entry = compared("kernel", identity, kernel, elements, [element for pair in pairs for element in _elements(*pair)])
    return entry | {"differing": differing}


def _elements(name: str, ours: NDArray[Any], theirs: NDArray[Any], dtype: str) -> Iterator[Element]:
    for place in np.argwhere(ours != theirs)[:MOST_ELEMENTS]:
        index = tuple(int(i) for i in place)
        where = f"{name}[{', '.join(map(str, index))}]"
        known = dtype if dtype in FORMATS else None
        yield Element(where, int(ours[index]), int(theirs[index]), ours.dtype.itemsize * 8, known)
