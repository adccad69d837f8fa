"""Whether the launches of a case saw the shapes that it was made for, by their receipts alone.

A receipt's ``arguments`` are what the launch layer saw behind each pointer, in the text form of
:class:`validation.emulator.arguments.PointedTo`: ``bfloat16[5,520] strides [528,1]``, ``4096 bytes``, ``null``.
What is due is declared by the entry point (:attr:`validation.operation.EntryPoint.shapes`): an argument's name, or
several with ``|`` between them, to a shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: One of these stands in every reason of :func:`lacking`.
SHAPE_WORDS = ("no receipt has argument", "was launched with")
#: A receipt of a null pointer.
NULL = "null"
#: The schema holds the same pattern for every argument of a receipt.
FORM = re.compile(
    r"null|no known memory|\d+ bytes( at byte \d+)?"
    r"|(?P<dtype>[a-z][a-z0-9_]*)\[(?P<shape>(\d+(,\d+)*)?)\]( strides \[\d+(,\d+)*\])?(?P<offset> at byte \d+)?"
)


def shape_of(argument: str) -> tuple[int, ...] | None:
    """The shape that a receipt says lay behind a pointer; ``None`` where no tensor began there."""
    found = FORM.fullmatch(argument)
    if found is None or found["shape"] is None or found["offset"]:
        return None
    return tuple(int(size) for size in found["shape"].split(",") if size)


def lacking(due: Mapping[str, Sequence[int]], launches: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Every way in which ``launches`` have not seen what was due; launches of which no workgroup ran do not count.

    Under a single name each launch that has such an argument must have seen the shape, and one at least; of names
    joined by ``|`` one launch must have seen it under one of them.
    """
    ran = [launch for launch in launches if launch["workgroups_run"]]
    for names, shape in due.items():
        wanted = tuple(shape)
        seen = [
            (launch["kernel"], name, launch["arguments"][name])
            for launch in ran
            for name in names.split("|")
            if name in (launch.get("arguments") or {})
        ]
        right = [entry for entry in seen if shape_of(entry[2]) == wanted]
        wrong = [entry for entry in seen if entry not in right]
        if not seen:
            kernels = ", ".join(dict.fromkeys(launch["kernel"] for launch in ran)) or "nothing"
            yield f"{SHAPE_WORDS[0]} {names}, due as {_listed(wanted)} (launched: {kernels})"
        elif wrong and ("|" not in names or not right):
            kernel, name, text = wrong[0]
            yield f"{kernel} {SHAPE_WORDS[1]} {name} {text}, due is {_listed(wanted)}"


def _listed(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"
