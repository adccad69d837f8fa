"""The fixture ``emulated_gpu``, as another repository uses it."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

import pytest

# What an inner run is the first to import leaves the process with it, and torch cannot be imported twice.
from tests.plugin import kernels  # noqa: F401
from validation import in_process  # noqa: F401
from validation.emulator import emulate  # noqa: F401

pytest_plugins = ["pytester"]

KERNEL = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def scale_kernel(x: fx.Pointer, y: fx.Pointer, n: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        fx.generic_store(y + i, fx.generic_load(x + i) * 2.5)

@flyc.kernel
def unguarded_kernel(x: fx.Pointer, y: fx.Pointer):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    fx.generic_store(y + i, fx.generic_load(x + i) * 2.5)  # past the end

@flyc.jit
def scale_launch(x: fx.Pointer, y: fx.Pointer, n: fx.Int32):
    scale_kernel(x, y, n).launch(grid=((n + 63) // 64, 1, 1), block=(64, 1, 1))

@flyc.jit
def unguarded_launch(x: fx.Pointer, y: fx.Pointer, n: fx.Int32):
    unguarded_kernel(x, y).launch(grid=((n + 63) // 64, 1, 1), block=(64, 1, 1))

def address(tensor):
    return flyc.from_c_void_p(fx.Float32, tensor.data_ptr())

def scale(x, y):
    scale_launch(address(x), address(y), x.numel())

def unguarded_scale(x, y):
    unguarded_launch(address(x), address(y), x.numel())
"""

FIVE_LINES = """
import torch
from scaling import scale

def test_scale(emulated_gpu):
    x, y = torch.arange(300.0), torch.zeros(300)
    scale(x, y)
    assert torch.equal(y, x * 2.5)
"""


@pytest.fixture
def repository(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder with a kernel in it, away from this repository."""
    for name in ("ARCH", "FLYDSL_GPU_ARCH", "FLYDSL_COMPILE_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(scaling=KERNEL)
    return pytester


def run(repository: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    """Run the text of a test module, strictly."""
    repository.makepyfile(test_it=test)
    return repository.runpytest_inprocess("--strict-markers", "-p", "no:xdist", "-p", "no:hypothesispytest", *arguments)


def test_it_is_registered() -> None:
    found = {entry.value for entry in entry_points(group="pytest11") if entry.name == "emulated_gpu"}
    assert found == {"validation.pytest_plugin"}, "the package is not installed in this environment: pip install -e ."


def test_five_lines_run_on_both_architectures(repository: pytest.Pytester) -> None:
    result = run(repository, FIVE_LINES, "-v")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*test_scale?gfx942? PASSED*", "*test_scale?gfx950? PASSED*"])


def test_the_code_is_that_of_the_architecture(repository: pytest.Pytester) -> None:
    text = FIVE_LINES + "    assert {launch.arch for launch in emulated_gpu.launches} == {emulated_gpu.arch}\n"
    text += "    assert str(emulated_gpu.launches[0].arguments['y']) == 'float32[300]'\n"
    text += "    import os\n    assert os.environ['ARCH'] == os.environ['FLYDSL_GPU_ARCH'] == emulated_gpu.arch\n"
    text += "def test_after():\n    import os\n    assert 'ARCH' not in os.environ\n"
    run(repository, text).assert_outcomes(passed=3)
    run(repository, FIVE_LINES, "--emulated-arch", "gfx950").assert_outcomes(passed=1)


def test_a_finding_fails_the_test_whatever_it_asserts(repository: pytest.Pytester) -> None:
    result = run(repository, FIVE_LINES.replace("import scale", "import unguarded_scale as scale"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*checker finding* on gfx942:", "memcheck: *scaling.py:*global_*"])


def test_nothing_launched_fails(repository: pytest.Pytester) -> None:
    result = run(repository, FIVE_LINES.replace("scale(x, y)", "y = x * 2.5"))
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*saw no launch on gfx950*"])


def test_a_wrong_result_fails_and_findings_are_shown_beside_it(repository: pytest.Pytester) -> None:
    text = FIVE_LINES.replace("import scale", "import unguarded_scale as scale").replace("2.5", "3.5")
    result = run(repository, text, "--emulated-arch", "gfx942")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*assert torch.equal*", "*emulated_gpu*", "*memcheck: *"])


def test_a_skip_stays_a_skip(repository: pytest.Pytester) -> None:
    text = FIVE_LINES.replace("    scale(x, y)", "    import pytest\n    pytest.skip('not today')")
    run(repository, text).assert_outcomes(skipped=2)


def test_a_fixture_that_launches_late_is_judged_too(repository: pytest.Pytester) -> None:
    fixture = "import pytest\nfrom scaling import unguarded_scale\n@pytest.fixture\ndef late(emulated_gpu):\n"
    fixture += "    yield\n    unguarded_scale(torch.zeros(60), torch.zeros(60))\n"
    text = FIVE_LINES.replace("\ndef test_scale(", fixture + "\ndef test_scale(late, ")
    run(repository, text, "--emulated-arch", "gfx942").assert_outcomes(passed=1, errors=1)


def test_markers_choose(repository: pytest.Pytester) -> None:
    mark = "pytestmark = pytest.mark.emulated_gpu(arch='gfx950', checks=('waits',), schedule='random:3')"
    text = f"import pytest\n{mark}\n" + FIVE_LINES.replace("import scale", "import unguarded_scale as scale")
    text += "    assert (emulated_gpu.checks, emulated_gpu.schedule) == (('waits',), 'random:3')\n"
    result = run(repository, text, "-v")
    result.assert_outcomes(failed=1)  # without memcheck a bad address stops the kernel
    result.stdout.fnmatch_lines(["*test_scale?gfx950? FAILED*"])
    run(repository, text.replace("unguarded_scale as scale", "scale")).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("mark", "arguments", "said"),
    [
        ("", ("--emulated-arch", "gfx1100"), "*unknown arch to emulate: 'gfx1100' (known: gfx942, gfx950)*"),
        ("@pytest.mark.emulated_gpu(arch='gfx90a')", (), "*unknown arch to emulate: 'gfx90a'*"),
        ("@pytest.mark.emulated_gpu('gfx942')", (), "*takes its arguments by name*"),
        ("@pytest.mark.emulated_gpu(checks=('memchek',))", (), "*memchek*"),
    ],
)
def test_what_is_unknown_is_refused(
    repository: pytest.Pytester, mark: str, arguments: tuple[str, ...], said: str
) -> None:
    result = run(repository, FIVE_LINES.replace("\ndef ", f"\nimport pytest\n{mark}\ndef "), *arguments)
    assert result.ret != 0
    assert " passed" not in result.stdout.str()
    pytest.LineMatcher([*result.outlines, *result.errlines]).fnmatch_lines([said])


def test_it_costs_nothing_where_it_is_not_used() -> None:
    code = "import validation.pytest_plugin, sys; print([m for m in ('torch', 'flydsl', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
