"""A git repository that holds a package ``tiny``: two kernels, a host module, and the operation that judges them.

``tiny.kernels.scale`` doubles, ``tiny.kernels.shift`` adds one. Each kernel's values that come out wrong are a constant
of its module, so that a commit decides which cases are red.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

KERNEL = '''\
"""A kernel: {what}."""

from pathlib import Path

WRONG = {{{wrong}}}
NEAR = {{{near}}}
OPERAND = {operand}


def text(arch):
    """Its assembly."""
    place = Path(__file__)
    return f"""\\t.amdgcn_target "amdgcn-amd-amdhsa-unknown-{{arch}}"
\\t.text
tiny_{name}: ; {comment}
\\t.file 1 "{{place.parent}}" "{{place.name}}"
\\t.loc 1 {line} 3
.Ltmp{line}:
\\tv_{op}_f32 v0, v0, {{OPERAND}} // {comment}
\\ts_endpgm
.Lfunc_end0:
\\t.section .debug_line
\\t.long {line}
\\t.amdgpu_metadata
---
amdhsa.kernels:
  - .group_segment_fixed_size: 0
    .kernarg_segment_size: 16
    .max_flat_workgroup_size: 64
    .name: tiny_{name}
    .private_segment_fixed_size: 0
    .sgpr_count: 8
    .sgpr_spill_count: 0
    .vgpr_count: 8
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target: amdgcn-amd-amdhsa-unknown-{{arch}}
...
\\t.end_amdgpu_metadata
"""


def run(value):
    """What it computes."""
    return value {sign} OPERAND + (100 if value in WRONG else 0.25 if value in NEAR else 0)
'''

HOST = '''\
"""Calls a kernel."""

import importlib


def call(bench, kernel, value):
    """One launch."""
    if value < 0:
        raise ValueError("value must not be negative")
    import torch

    module = importlib.import_module(f"tiny.kernels.{kernel}")
    bench.launch(f"tiny_{kernel}", instructions=10)
    return torch.tensor([float(module.run(value))])
'''

OPERATION = '''\
"""The operation."""

from validation.grid import Anchor, Between, Grid, Rule, axis
from validation.operation import ContractRow, CostCase, CostModel, EntryPoint, Operation

VALUES = {f"v{n}": (n, "production") for n in range(1, 6)}
GRID = Grid(
    axes=(
        axis("kernel", scale=("scale", "production"), shift=("shift", "production")),
        axis("value", Between("v", 1, 64), **VALUES, big=(lambda p: 2**20 + len(p["kernel"]), "long", "computed")),
    ),
    rules=(Rule(("kernel", "value"), lambda kernel, value: kernel == "scale" or value != 5, "no fifth shift"),),
    anchors=(Anchor({"kernel": "shift", "value": "v2"}, "the second"),),
)
CONTRACT = (ContractRow("negative", "values start at 0", "ValueError", ("value", "negative")),)
ENTRY = EntryPoint(
    name="tiny",
    function="call",
    grid=GRID,
    driver="tiny.driver:Driver",
    contract=CONTRACT,
    variant=lambda params: params["kernel"],
    launches=lambda params: True,
    limits={"vgprs": 64},
    paths=lambda params: (params["kernel"],),
)
OPERATION = Operation(
    "tiny",
    "Tiny",
    ("tiny",),
    (ENTRY,),
    kernel_paths={"tiny_scale": "scale", "tiny_shift": "shift"},
    cost=CostModel(lambda arch: (CostCase("one", {}, "the only one"),), "tiny.driver:CostDriver"),
)
'''

DRIVER = '''\
"""The driver."""

import importlib
import time
from pathlib import Path

from tiny.host import call
from validation.cases import comparison
from validation.operation import ContractCall

BOUND = 0.5
HANG = Path(__file__).with_name("hang")


class Driver:
    """See validation.operation.Driver."""

    def prepare(self, case, bench, seed):
        return case.params, bench

    def workgroups(self, inputs):
        return None

    def run(self, inputs):
        params, bench = inputs
        while HANG.exists() and params["kernel"] == "shift":
            time.sleep(0.05)
        if params["value"] == 2 and params["kernel"] == "scale":
            from tiny.extra import call_again as again

            return again(bench, params["kernel"], params["value"])
        return call(bench, params["kernel"], params["value"])

    def check(self, inputs, outputs):
        params, _ = inputs
        due = params["value"] * 2 if params["kernel"] == "scale" else params["value"] + 1
        error = abs(float(outputs[0]) - due)
        said = f"error/bound {error / BOUND}"
        return [comparison("y", "bound", error <= BOUND, said, elements=1, max_ratio=error / BOUND, worst_index=[0])]

    def results(self, inputs, outputs):
        return {"y": outputs}

    def build(self, case, arch):
        return [importlib.import_module(f"tiny.kernels.{case.params['kernel']}").text(arch)]

    def contract(self, row, bench):
        return ContractCall(lambda: call(bench, "scale", -1))


class CostDriver:
    """See validation.operation.CostDriver."""

    def measure(self, case, bench):
        import tiny_cost

        scale = importlib.import_module("tiny.kernels.scale")
        with bench.session():
            bench.launch("tiny_scale", 10)
        return tiny_cost.ROW | {"arch": bench.arch, "mfma": 4 * scale.OPERAND, "mfma_due": 4 * scale.OPERAND}

    def judge(self, row):
        return [comparison("traffic", "cost", True, "as ever")]
'''

EXTRA = '''\
"""A second way in."""

from tiny.host import call


def call_again(bench, kernel, value):
    """The same."""
    return call(bench, kernel, value)
'''


def kernel(name: str, *, wrong: str = "", near: str = "", operand: str = "", comment: str = "", line: int = 7) -> str:
    """A kernel's module; ``wrong`` and ``near``: values that come out wrong, or otherwise within the bound."""
    signs = {"scale": ("*", "mul", "2"), "shift": ("+", "add", "1")}
    sign, op, usual = signs[name]
    return KERNEL.format(
        what=name,
        name=name,
        wrong=wrong or "None",
        near=near or "None",
        operand=operand or usual,
        sign=sign,
        op=op,
        comment=comment,
        line=line,
    )


FILES = {
    "tiny/__init__.py": "",
    "tiny/kernels/__init__.py": "",
    "tiny/kernels/scale.py": kernel("scale", wrong="3, 4"),
    "tiny/kernels/shift.py": kernel("shift"),
    "tiny/host.py": HOST,
    "tiny/operation.py": OPERATION,
    "tiny/driver.py": DRIVER,
    ".gitignore": "__pycache__/\n",
}
REFERENCE = "tiny.operation:OPERATION"


class Repository:
    """A repository at ``root`` with one commit of :data:`FILES`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.write(FILES)
        self.commit()

    def git(self, *arguments: str) -> str:
        """Standard output of git here."""
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", *identity, *arguments], cwd=self.root, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, files: dict[str, str]) -> None:
        """Put files there, and folders."""
        for name, text in files.items():
            place = self.root / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)

    def commit(self) -> str:
        """Commit everything; the commit's name."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "state")
        return self.git("rev-parse", "HEAD")

    def traces(self) -> list[str]:
        """What a worktree would have left: registered worktrees beside this one, and git's files on them."""
        listed = [
            line for line in self.git("worktree", "list", "--porcelain").splitlines() if line.startswith("worktree")
        ]
        folder = self.root / ".git" / "worktrees"
        return listed[1:] + [path.name for path in folder.glob("*")]


@contextmanager
def importable(root: Path) -> Iterator[None]:
    """Within the block, ``import tiny`` finds the one below ``root``."""

    def forget() -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "tiny"]:
            del sys.modules[name]
        importlib.invalidate_caches()

    forget()
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        sys.path.remove(str(root))
        forget()
