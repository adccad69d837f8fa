"""Which cases need not run on the base, because nothing that they run differs; with the evidence for it.

Only a case that passed on the head is spared: one that is red there runs on the base too, before it is called red on
both. "Nothing differs" rests on compiled machine code, compared, and on sources, compared file by file:

- a case that launches kernels needs its variant compiled on both, to the same code;
- no file of the packages may differ, but one whose code only ever became instructions of other variants: no other
  module imports it, and no module behind this variant's kernels does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from validation.base.revision import package_folder
from validation.base.sources import Code, closure, digests, imports
from validation.cases import Task
from validation.operation import Operation

EVIDENCE = "same machine code and same host sources"
EVIDENCE_WITHOUT_KERNELS = "same sources, and it launches nothing"


class Shortcut:
    """Answers for one arch, once the compile cases of both are known: ``heads`` and ``bases``, by case."""

    def __init__(
        self,
        code: Code,
        operation: Operation,
        heads: Mapping[str, Mapping[str, Any]],
        bases: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self._code, self._operation = code, operation
        self._heads, self._bases = heads, bases
        self._roots = list(dict.fromkeys([code.folder, *(package_folder(p).parent for p in code.packages)]))
        self._sources = cache(self._sources_of)
        self._apart = self._kernel_modules() if code.differing else frozenset()

    def evidence(self, task: Task) -> str | None:
        """Why ``task``, which passed on the head, would do the same on the base; ``None``: it must run there."""
        if task.stage == "contract":
            return None if self._code.differing else EVIDENCE_WITHOUT_KERNELS
        if task.stage == "correctness":
            return self._of_grid_case(task)
        every = list(self._heads)
        same = bool(every) and all(map(self._same_code, every)) and not self._code.differing
        return EVIDENCE if same else None

    def _of_grid_case(self, task: Task) -> str | None:
        entry = self._operation.entry_point(task.payload["entry"])
        if not entry.launches(task.params):
            return None if self._code.differing else EVIDENCE_WITHOUT_KERNELS
        variant = f"compile.{entry.name}.{entry.variant(task.params)}"
        if not self._same_code(variant):
            return None
        reached = self._closure(self._sources(variant))
        same = self._code.differing <= self._apart - reached
        return EVIDENCE if same else None

    def _same_code(self, variant: str) -> bool:
        head, base = self._heads.get(variant), self._bases.get(variant)
        if head is None or base is None or not head["status"] == base["status"] == "pass":
            return False
        code = head["facts"].get("code")
        return bool(code) and code == base["facts"].get("code")

    def _sources_of(self, variant: str) -> frozenset[str]:
        """Files whose code became instructions of ``variant``, on either."""
        return frozenset(
            name
            for cases in (self._heads, self._bases)
            if variant in cases
            for name in cases[variant]["facts"].get("sources", ())
        )

    def _kernel_modules(self) -> frozenset[str]:
        """Files that became instructions of some variant, and that no other file imports."""
        kernels = frozenset(name for variant in self._heads for name in self._sources(variant))
        imported: set[str] = set()
        for root, name in self._files():
            if name not in kernels and name.endswith(".py"):
                imported |= imports(root / name, name, root)
        return kernels - imported

    def _closure(self, files: Iterable[str]) -> set[str]:
        return set().union(*(closure(set(files), root) for root in self._roots))

    def _files(self) -> Iterable[tuple[Path, str]]:
        for root in self._roots:
            for package in self._code.packages:
                if (root / package).is_dir():
                    yield from ((root, f"{package}/{name}") for name, _ in digests(root / package))


def is_broken_variant(task: Task) -> bool:
    """Whether a protocol case runs code that was broken on purpose: it judges the validator, not the code."""
    return task.stage == "protocol" and task.payload.get("tooth") is not None


def by_id(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Case records by their names."""
    return {record["id"]: record for record in records}
