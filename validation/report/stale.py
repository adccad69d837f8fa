"""Whether a report still speaks of the revision that is being reviewed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class RevisionError(LookupError):
    """A revision that git does not know; the message says where it was looked for."""


def resolve(revision: str, repository: Path) -> str:
    """The commit that ``revision`` names in the git repository at ``repository``; a whole commit stands for itself."""
    if _COMMIT.fullmatch(revision):
        return revision
    command = ["git", "-C", str(repository), "rev-parse", "--verify", "--quiet", "--end-of-options"]
    done = subprocess.run([*command, f"{revision}^{{commit}}"], capture_output=True, text=True, timeout=30)
    if done.returncode:
        why = (done.stderr.strip() or "git knows no such revision").splitlines()[0]
        raise RevisionError(f"revision {revision!r} in {str(repository)!r}: {why}; give a branch, a tag or a commit")
    return done.stdout.strip()


def staleness(report: Mapping[str, Any], commit: str) -> list[str]:
    """Why ``report`` does not speak of ``commit``; empty when it does."""
    source = report["source"]
    if source["commit"] is None:
        return [f"the report names no commit ({source['reason']}), so it may speak of any"]
    found = []
    if source["commit"] != commit:
        found.append(f"stale: the report speaks of commit {source['commit']}, not of {commit}; validate again")
    if source["dirty"]:
        found.append(f"the checkout had changes that commit {source['commit']} does not hold")
    return found
