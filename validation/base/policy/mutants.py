"""Known defects that the validator must see: those that the change took away or excused."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from validation.base.policy.finding import Finding, Tree, Trees

KIND = "mutant"
_MANIFEST = "mutant.toml"


def find(trees: Trees) -> Iterator[Finding]:
    """Mutants removed, called equivalent, taken from an arch, or that other checks may kill now."""
    after = _manifests(trees.head)
    for name, (file, old) in _manifests(trees.base).items():
        if name not in after:
            yield Finding(KIND, file, name, "removed", str(old.get("title", "")), "")
            continue
        place, new = after[name]
        claimed, claims = old.get("equivalent"), new.get("equivalent")
        if claims and claims != claimed:
            what = "called equivalent" if not claimed else "claim of equivalence changed"
            yield Finding(KIND, place, f"{name}.equivalent", what, _shown(claimed), _shown(claims))
        gone = set(old.get("archs", ("gfx942", "gfx950"))) - set(new.get("archs", ("gfx942", "gfx950")))
        if gone:
            yield Finding(KIND, place, f"{name}.archs", "no longer tried", ", ".join(sorted(gone)), "")
        due, now = _checks(old), _checks(new)
        if not now <= due:
            what = "another check may kill it"
            yield Finding(KIND, place, f"{name}.check", what, ", ".join(sorted(due)), ", ".join(sorted(now)))


def _checks(manifest: dict[str, Any]) -> set[str]:
    """The checks of which one must kill a mutant."""
    check = manifest.get("check", ())
    return {check} if isinstance(check, str) else {str(each) for each in check}


def _shown(claim: Any) -> str:
    return "" if not claim else f"{claim.get('reason', '')} (until {claim.get('expires', 'ever')})"


def _manifests(tree: Tree) -> dict[str, tuple[str, dict[str, Any]]]:
    """``class/name`` to file and content. A manifest that is no TOML counts as gone."""
    found = {}
    for file in tree.files:
        path = PurePosixPath(file)
        if path.name == _MANIFEST and path.parts[0] == "mutants":
            try:
                found["/".join(path.parts[-3:-1])] = file, tomllib.loads(tree.text(file))
            except tomllib.TOMLDecodeError:
                continue
    return found
