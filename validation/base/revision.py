"""Which commit a base is, and of which repository: that of the code under test."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from validation.base.git import GitError, git
from validation.operation import Operation

#: Length of a commit in what people read.
SHORT = 12


class BaseError(LookupError):
    """There is no base to compare with; the message says why and what to do, in one line."""


@dataclass(frozen=True)
class Base:
    """A revision as it was named, the ``commit`` that it was then, and the checkout that holds the head."""

    revision: str
    commit: str
    repository: Path


def package_folder(package: str) -> Path:
    """The folder of an import package, which is not imported; :class:`BaseError` when there is none."""
    spec = importlib.util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise BaseError(f"--base: the package {package!r} of the code under test cannot be found; install it first")
    return Path(places[0]).resolve()


def repository_of(operation: Operation) -> Path:
    """The git checkout that holds the operation's first package; :class:`BaseError` when none does."""
    folder = package_folder(operation.packages[0])
    try:
        return Path(git(folder, "rev-parse", "--show-toplevel").strip())
    except GitError as error:
        raise BaseError(
            f"--base needs the code under test in a git checkout, and {operation.packages[0]} in {str(folder)!r} is in "
            f"none ({error}); install it from a clone with pip install -e"
        ) from error


def resolve_base(revision: str, operation: Operation) -> Base:
    """The commit that ``revision`` names now.

    Raises:
        BaseError: the code under test is in no checkout, or git knows no such commit; a shallow clone is named.
    """
    repository = repository_of(operation)
    try:
        commit = git(
            repository, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
        ).strip()
    except GitError as error:
        shallow = git(repository, "rev-parse", "--is-shallow-repository").strip() == "true"
        todo = (
            "the clone is shallow: fetch the revision first (git fetch --unshallow, or fetch-depth: 0 in a workflow)"
            if shallow
            else "give a branch, a tag or a commit that is there (a remote branch: git fetch first)"
        )
        raise BaseError(f"--base {revision!r}: git knows no such commit in {str(repository)!r}; {todo}") from error
    return Base(revision, commit, repository)


def tree_digest(repository: Path) -> str:
    """A name for the content of a checkout: every file that git tracks, as it is now, and Python files that are new."""
    tracked = git(repository, "ls-files", "-z", "--cached").split("\0")
    new = git(repository, "ls-files", "-z", "--others", "--exclude-standard", "--", "*.py").split("\0")
    total = hashlib.sha256()
    for name in sorted({name for name in (*tracked, *new) if name}):
        path = repository / name
        if path.is_symlink():
            content = str(path.readlink()).encode(errors="surrogateescape")
        elif path.is_file():
            content = path.read_bytes()
        else:
            continue  # deleted, or a submodule: its name must not count as there
        total.update(f"{name}\0{len(content)}\0".encode(errors="surrogateescape") + content)
    return f"sha256:{total.hexdigest()}"
