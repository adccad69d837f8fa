"""``python -m validation.report.samples``: rebuilds the sample reports under ``reports/``.

Without options: a run at the default level on both architectures, which takes as long as that takes. Options of
``hcgr-validate`` narrow it (``--only environment --only contract``, ``--jobs 4``), and the samples then say so. With
``--render`` nothing runs: the pages are made anew from the JSON that is there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from validation import devices
from validation.report.load import read_report
from validation.report.show import write
from validation.report.verdict import EXIT_CODES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "reports"
STEM = "hcgr"


def paths(folder: Path = FOLDER) -> dict[str, Path]:
    """Where the JSON sample of each arch is; its page lies beside it, as ``.html``."""
    return {arch: folder / f"{STEM}.{arch}.json" for arch in devices.ARCHES}


def layout(report: Mapping[str, Any]) -> str:
    """``report`` as JSON with one line for each case and each other field: short, and fit for diff and grep."""
    lines = ["{"]
    for key, value in report.items():
        if key != "stages":
            lines.append(f" {_json(key)}: {_json(value)},")
            continue
        lines.append(' "stages": [')
        for stage in value:
            head = ", ".join(f"{_json(k)}: {_json(v)}" for k, v in stage.items() if k != "cases")
            lines.append(f'  {{{head}, "cases": [')
            lines += [f"   {_json(case)}," for case in stage["cases"]]
            lines[-1] = lines[-1].rstrip(",") if stage["cases"] else lines[-1]
            lines.append("  ]},")
        lines[-1] = lines[-1].rstrip(",")
        lines.append(" ],")
    lines[-1] = lines[-1].rstrip(",")
    return "\n".join([*lines, "}"]) + "\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def rebuild(options: Sequence[str], folder: Path = FOLDER) -> int:
    """Validate both archs with ``options`` outside of the checkout, then move what came out into ``folder``.

    Returns the exit code of the run. A report that could not be written leaves the old sample, and is an error.
    """
    folder.mkdir(exist_ok=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))}
    with tempfile.TemporaryDirectory() as outside:  # a new file in the checkout would make the second arch's dirty
        command = [sys.executable, "-m", "validation.cli", "--arch", "all", "--report", f"{STEM}.json", *options]
        code = subprocess.run(command, cwd=outside, env=environment).returncode
        if code not in EXIT_CODES.values():
            return code
        for arch, path in paths(folder).items():
            report = read_report(paths(Path(outside))[arch])
            path.write_text(layout(report), encoding="utf-8")
            print(f"{path}: {report['verdict']['text']}")
    render(folder)
    return code


def render(folder: Path = FOLDER) -> None:
    """Make the page of each sample from its JSON."""
    for path in paths(folder).values():
        write(path.with_suffix(".html"), read_report(path), "html")


def main(arguments: Sequence[str]) -> int:
    """Rebuild, or only render; returns the exit code."""
    if list(arguments) == ["--render"]:
        render()
        return 0
    return rebuild(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
