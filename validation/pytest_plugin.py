"""The pytest fixture ``emulated_gpu``: kernels that a test launches run in the emulator, under its checkers.

A test of any repository that has this package installed::

    def test_scale(emulated_gpu):
        x, y = torch.arange(300.0), torch.zeros(300)
        my_flydsl_scale(x, y, 2.5)
        assert torch.equal(y, x * 2.5)

It runs once for each architecture of ``--emulated-arch`` (default: all). It fails, whatever it asserts, when a checker
has a finding or when nothing was launched. The fixture is the emulator's session: ``launches`` holds what ran,
with which grid, and in ``arguments`` the tensor behind each pointer.

``@pytest.mark.emulated_gpu(arch="gfx950", checks=("memcheck",), schedule="random:7", memory="weak")`` sets archs and
what :func:`validation.emulator.emulate` takes, for a test, a class or a module.

A compiled handle that a program keeps belongs to one architecture: the session refuses code of another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from validation.emulator import Finding, Session

FIXTURE = "emulated_gpu"
ARCHES = ("gfx942", "gfx950")
#: What a test runs under unless its marker says otherwise.
CHECKS = ("memcheck", "initcheck", "waits", "racecheck", "synccheck")

_SESSION = pytest.StashKey["Session"]()
#: Findings of which the test has been told.
_JUDGED = pytest.StashKey[list["Finding"]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--emulated-arch``."""
    parser.getgroup(FIXTURE, "kernels in the gfx9 emulator").addoption(
        "--emulated-arch",
        default=",".join(ARCHES),
        metavar="ARCH[,ARCH]",
        help=f"architectures that tests with the fixture {FIXTURE} run for (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and refuse an unknown architecture before anything runs."""
    config.addinivalue_line("markers", f"{FIXTURE}(arch, checks, **options): how the fixture {FIXTURE} emulates")
    _arches(config.getoption("--emulated-arch").split(","))


def _arches(asked: Sequence[str]) -> list[str]:
    unknown = [arch for arch in asked if arch not in ARCHES]
    if unknown or not asked:
        raise pytest.UsageError(
            f"unknown arch to emulate: {', '.join(map(repr, unknown))} (known: {', '.join(ARCHES)})"
        )
    return list(dict.fromkeys(asked))


def _options(node: Any) -> dict[str, Any]:
    """Arguments of the markers of a test, those closest to it last."""
    merged: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers(FIXTURE))):
        if marker.args:
            raise pytest.UsageError(f"{node.nodeid}: the marker {FIXTURE} takes its arguments by name")
        merged |= marker.kwargs
    return merged


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each architecture: those of the option that the marker leaves."""
    if FIXTURE not in metafunc.fixturenames:
        return
    chosen = _arches(metafunc.config.getoption("--emulated-arch").split(","))
    marked = _options(metafunc.definition).get("arch", ARCHES)
    wanted = _arches([marked] if isinstance(marked, str) else list(marked))
    metafunc.parametrize(FIXTURE, [arch for arch in chosen if arch in wanted], indirect=True)


@pytest.fixture
def emulated_gpu(request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session of the emulator in which the test's launches run; see :mod:`validation.pytest_plugin`."""
    from validation.devices.emulator import worker_environment
    from validation.emulator import emulate
    from validation.in_process import environment

    arch = getattr(request, "param", None)
    if arch is None:
        pytest.fail(f"{FIXTURE} has one value for each arch: name it as an argument or in usefixtures", pytrace=False)
    options = {"checks": CHECKS} | _options(request.node) | {"arch": arch}
    with environment(worker_environment(arch)), emulate(**options) as session:
        request.node.stash[_SESSION] = session
        yield session
        session.synchronize()
    late = [finding for finding in session.findings if finding not in request.node.stash.get(_JUDGED, [])]
    if late:
        pytest.fail(_described(late, arch), pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """After the test's own code, judge what was launched: the test itself is what fails."""
    try:
        result = yield
        session = item.stash.get(_SESSION, None)
        if session is not None:
            session.synchronize()
    except BaseException:  # the test fails (or skips) for its own reason; what the checkers saw may explain it
        session = item.stash.get(_SESSION, None)
        if session is not None and session.findings:
            item.stash[_JUDGED] = session.findings
            item.add_report_section("call", FIXTURE, _described(session.findings, session.arch))
        raise
    if session is not None:
        item.stash[_JUDGED] = session.findings
        _judge(session)
    return result


def _judge(session: Session) -> None:
    if session.findings:
        pytest.fail(_described(session.findings, session.arch), pytrace=False)
    if not any(launch.workgroups_run for launch in session.launches):
        pytest.fail(f"{FIXTURE} saw no launch on {session.arch}: no kernel made this test's results", pytrace=False)


def _described(findings: Sequence[Finding], arch: str | None) -> str:
    count = f"{len(findings)} checker finding{'s' * (len(findings) > 1)} on {arch}:"
    return "\n".join([count, *map(str, findings)])
