"""Tolerances of tests: numbers behind names, parameters and calls that say how far off is still right.

Tests compute with many numbers, and most are inputs. So only those count that a name calls a tolerance (``TOL``,
``rtol=``, a default ``eps``), or that a function for comparing within a tolerance is given.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from validation.base.policy.finding import Finding, Tree, Trees, called, scopes

KIND = "tolerance"
#: Names of tolerances, in any spelling.
_NAME = re.compile(
    r"(?i)(^|_)(a|r|abs|rel)?_?(tol|tolerance|slack|bound|margin|thresh(old)?|ulps?|eps(ilon)?)s?(_|$)|^(rel|abs)$"
)
_FILE = "(file)"
#: Functions that compare within a tolerance; what they are given by position counts too, from the third argument on.
_CLOSE = ("approx", "allclose", "isclose", "assert_close", "assert_allclose", "assertAlmostEqual")


def find(trees: Trees) -> Iterator[Finding]:
    """Each scope of a test's file whose tolerances are not what they were."""
    for file in trees.listed(_looked_at):
        if trees.both(file) and not trees.same(file):
            before, after = _found(trees.base, file), _found(trees.head, file)
            for scope in before:
                gone, come = (before[scope] - after.get(scope, Counter())), after.get(scope, Counter()) - before[scope]
                if come:  # a scope that went is another rule's
                    yield Finding(KIND, file, scope, "a test's tolerance changed", _shown(gone), _shown(come))


def _looked_at(name: str) -> bool:
    return name.endswith(".py") and ("tests" in name.split("/")[:-1] or name.rpartition("/")[2].startswith("test_"))


def _shown(counted: Counter[str]) -> str:
    return ", ".join(sorted(counted.elements()))


def _found(tree: Tree, file: str) -> dict[str, Counter[str]]:
    """Tolerances by the function or class that they stand in; those of the file itself under :data:`_FILE`."""
    module = tree.module(file)
    found: dict[str, Counter[str]] = {}
    within: set[int] = set()
    for name, node in reversed(list(scopes(module))):  # inner ones first: what is theirs is not an outer one's too
        own = [each for each in ast.walk(node) if id(each) not in within]
        within |= {id(each) for each in own}
        found[name] = Counter(text for each in own for text in _tolerances(each))
    rest = [each for each in ast.walk(module) if id(each) not in within]
    found[_FILE] = Counter(text for each in rest for text in _tolerances(each))
    return found


def _tolerances(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _named(getattr(target, "id", getattr(target, "attr", "")), node.value)
    elif isinstance(node, ast.Call):
        name = called(node)
        for keyword in node.keywords:
            yield from _named(keyword.arg or "", keyword.value)
        if name in _CLOSE:
            yield from (f"{name}: {ast.unparse(each)}" for each in node.args[1 if name == "approx" else 2 :])
    elif isinstance(node, ast.arguments):
        positional = [*node.posonlyargs, *node.args]
        given = zip(positional[len(positional) - len(node.defaults) :], node.defaults, strict=True)
        for argument, default in (*given, *zip(node.kwonlyargs, node.kw_defaults, strict=True)):
            yield from _named(argument.arg, default)


def _named(name: str, value: ast.expr | None) -> Iterator[str]:
    """A number, or arithmetic of numbers, under the name of a tolerance."""
    numbers = value is not None and any(type(getattr(each, "value", None)) in (int, float) for each in ast.walk(value))
    if value is not None and numbers and _NAME.search(name):
        yield f"{name} = {ast.unparse(value)}"
