"""Whether a report still speaks of the revision that is being reviewed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from validation.base.git import GitError, git
from validation.base.revision import tree_digest

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


def moved(report: Mapping[str, Any], repository: Path) -> list[str]:
    """Why the comparison in ``report`` is not today's: its base names another commit, or the head's files changed.

    Empty for a report without a base. What cannot be told is a reason too.
    """
    base = report.get("base")
    if base is None:
        return []
    try:
        commit = resolve(base["revision"], repository)
        tree = tree_digest(Path(git(repository, "rev-parse", "--show-toplevel").strip()))
    except (RevisionError, GitError) as error:
        return [f"nothing tells whether the base has moved: {error}; name its checkout with --repo"]
    found = []
    if commit != base["commit"]:
        found.append(
            f"stale: base {base['revision']} was {base['commit']}, it is {commit} now; validate again with --base"
        )
    if tree != base["head_tree"]:
        found.append("stale: the files of the head are not those that were compared; validate again with --base")
    return found
