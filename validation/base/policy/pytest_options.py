"""What pytest is asked to run and to mind: its configuration, and the options of every command that calls it.

Configuration is read wherever a file of that name lies, for the one nearest to the tests is the one that counts. Values
that select tests may only grow; switches that demand something may only be turned on; any other setting that is no mere
matter of display is a finding when it changes.
"""

from __future__ import annotations

import configparser
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from validation.base.policy.finding import Finding, Tree, Trees

KIND = "pytest"
#: Configuration by file name: where in it the settings stand.
SECTIONS: dict[str, tuple[str, ...]] = {
    "pytest.toml": ("pytest",),
    ".pytest.toml": ("pytest",),
    "pytest.ini": ("pytest",),
    ".pytest.ini": ("pytest",),
    "pyproject.toml": ("tool", "pytest"),
    "tox.ini": ("pytest",),
    "setup.cfg": ("tool:pytest",),
}
#: Settings that select: each of their words lets more tests be found. The value is what holds where nothing is said.
SELECT: dict[str, tuple[str, ...]] = {
    "testpaths": (),
    "python_files": ("test_*.py", "*_test.py"),
    "python_classes": ("Test",),
    "python_functions": ("test",),
}
#: Settings that are on or off, and demand more when on.
DEMANDS = ("xfail_strict", "strict", "strict_config", "strict_markers", "strict_xfail", "strict_parametrization_ids")
#: Settings that only show or describe.
DISPLAY = re.compile(
    r"markers|minversion|console_output_style|cache_dir|(junit|log|tmp_path|verbosity|faulthandler)_.*"
)

#: Options that leave tests out or make less of their outcome, by how many words they take as a value.
LESS = {"--deselect": 1, "--ignore": 1, "--ignore-glob": 1, "-k": 1, "-m": 1, "-p": 1, "-o": 1, "--override-ini": 1}
LESS |= {
    "-c": 1,
    "--config-file": 1,
    "--rootdir": 1,
    "--confcutdir": 1,
    "-W": 1,
    "--pythonwarnings": 1,
    "--noconftest": 0,
}
LESS |= {"--lf": 0, "--last-failed": 0, "--sw": 0, "--stepwise": 0, "--co": 0, "--collect-only": 0, "--setup-only": 0}
LESS |= {"--setup-plan": 0, "--runxfail": 0, "--disable-warnings": 0, "--reruns": 1, "--maxfail": 1}
#: Options that demand more.
MORE = {"--strict": 0, "--strict-markers": 0, "--strict-config": 0}
#: Others that take a word, which is no path then.
_VALUED = {
    "-n": 1,
    "--numprocesses": 1,
    "--dist": 1,
    "--cov": 1,
    "--durations": 1,
    "--tb": 1,
    "--junitxml": 1,
    "--junit-xml": 1,
}
_VALUED |= {"--basetemp": 1, "--color": 1, "--timeout": 1, "-r": 1, "--log-level": 1, "--seed": 1, "--cov-report": 1}
_WORDS = _VALUED | LESS | MORE
#: A call of pytest within a line, up to the end of the command.
_CALL = re.compile(r"(?<![\w.\-/])(?:[\w.$(){}/\-]*/)?(?:pytest|py\.test)(?=\s|$)(?P<rest>[^;&|>\n]*)")
_VARIABLE = re.compile(r"\bPYTEST_ADDOPTS\s*[=:]\s*(?P<rest>.*)")


def find(trees: Trees) -> Iterator[Finding]:
    """Every setting and option by which pytest minds or runs less."""
    for file in trees.listed(lambda name: PurePosixPath(name).name in SECTIONS):
        if not trees.same(file):
            yield from _settings(file, _read(trees.base, file), _read(trees.head, file))


# -- configuration -----------------------------------------------------------------------------------------------------


def _settings(file: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Iterator[Finding]:
    if before is None and after is not None:
        what = "another configuration of pytest, which may take the place of the one before"
        yield Finding(KIND, file, "configuration", what, "", _shown(after))
    elif before is not None and after is None:
        yield Finding(KIND, file, "configuration", "removed, or no longer readable", _shown(before), "")
    if before is None or after is None:
        return
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new or DISPLAY.fullmatch(name):
            continue
        what = _weaker(name, old, new)
        if what:
            yield Finding(KIND, file, name, what, _text(old), _text(new))
    yield from options(file, _words(before.get("addopts")), _words(after.get("addopts")))


def _weaker(name: str, old: Any, new: Any) -> str:
    """What is less about the new value of a setting; empty if nothing is."""
    if name == "addopts":
        return ""  # its options are looked at one by one
    if name in SELECT:
        had, has = (set(_words(value)) or set(SELECT[name]) for value in (old, new))
        narrowed = not had <= has if had else bool(has)  # without testpaths every folder is searched
        return "fewer tests are found" if narrowed and has else ""
    if name in DEMANDS:
        return "turned off" if _on(old) and not _on(new) else ""
    return "changed: it may change which tests run, or their outcome"


def _on(value: Any) -> bool:
    return value is True or str(value).strip().lower() in ("1", "true", "yes", "on")


def _read(tree: Tree, file: str) -> dict[str, Any] | None:
    """Settings of pytest in a file; ``None``: it has none, or is not there, or cannot be read."""
    if file not in tree.known:
        return None
    section = SECTIONS[PurePosixPath(file).name]
    if not file.endswith(".toml"):
        parser = configparser.ConfigParser(interpolation=None)
        try:
            parser.read_string(tree.text(file))
        except configparser.Error:
            return None
        return dict(parser[section[0]]) if parser.has_section(section[0]) else None
    try:
        table: Any = tomllib.loads(tree.text(file))
    except tomllib.TOMLDecodeError:
        return None
    for part in section:
        table = table.get(part) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        return None
    return {name: value for name, value in table.items() if name != "ini_options"} | table.get("ini_options", {})


def _words(value: Any) -> list[str]:
    """The words of a setting, however it is written."""
    if value is None:
        return []
    if isinstance(value, list):
        return [str(each) for each in value]
    return split(str(value))


def _text(value: Any) -> str:
    return "" if value is None else " ".join(_words(value)) if isinstance(value, str | list) else str(value)


def _shown(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_text(value)}" for name, value in settings.items()) or "empty"


# -- options -----------------------------------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    """Words as a shell has them; of a text that no shell would take, as they stand."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def calls(lines: Sequence[str]) -> list[str]:
    """The words behind every call of pytest in ``lines`` of scripts, and of its variable for options."""
    found: list[str] = []
    for line in lines:
        if match := _VARIABLE.search(line):
            found += split(match["rest"])
        for match in _CALL.finditer(line):
            found += split(match["rest"].strip())
    return found


def options(file: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Finding]:
    """What pytest is asked for less in ``file``: ``before`` and ``after`` are the words of all of its calls."""
    (old, old_paths), (new, new_paths) = _parsed(before), _parsed(after)
    for name in sorted({name for name, _ in (old | new)}):
        gone = sorted((old - new).elements())
        come = sorted((new - old).elements())
        was, now = (" ".join(value for each, value in part if each == name) for part in (gone, come))
        had, has = (sum(n for (each, _), n in side.items() if each == name) for side in (old, new))
        if name in MORE and has < had:
            yield Finding("threshold", file, name, "dropped", name, "")
        elif name in LESS and any(each == name for each, _ in come):
            yield Finding("threshold", file, name, "added" if has > had else "changed", was, now or name)
    lost = old_paths - new_paths
    if lost and new_paths:
        yield Finding(KIND, file, "paths", "other tests are run", _paths(lost), _paths(new_paths - old_paths))


def _paths(counted: Counter[str]) -> str:
    return ", ".join(sorted(counted.elements()))


def _parsed(words: Sequence[str]) -> tuple[Counter[tuple[str, str]], Counter[str]]:
    """Options with their values, and what is no option: paths of tests."""
    given: Counter[tuple[str, str]] = Counter()
    paths: Counter[str] = Counter()
    waiting = list(words)
    while waiting:
        word = waiting.pop(0).strip("\"'")
        if not word.startswith("-"):
            paths[word] += bool(word)
            continue
        name, equals, value = word.partition("=")
        if not equals and not name.startswith("--") and name not in _WORDS and name[:2] in _WORDS:
            name, value = name[:2], name[2:]  # -kname, -n4
        elif not equals and _WORDS.get(name) and waiting:
            value = waiting.pop(0).strip("\"'")
        given[name, value] += 1
    return given, paths
