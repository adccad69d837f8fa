"""FlyDSL programs of ``tests.flydsl_programs`` under racecheck and synccheck: ``programs_worker.py SCHEDULE NAME...``.

The architecture and the backend come from the environment. Writes JSON: program -> what was found, or its error.
"""

from __future__ import annotations

import json
import sys

import torch

from tests.flydsl_programs import worker
from validation.emulator import emulate


def main() -> None:
    schedule = sys.argv[1]
    found: dict[str, list[str]] = {}
    for name in sys.argv[2:]:
        with emulate(checks=("racecheck", "synccheck"), schedule=schedule) as session:
            module = __import__(f"{worker.__package__}.{name}", fromlist=["run"])
            cases = module.run(torch.Generator().manual_seed(worker.SEED))
        wrong = [f"{case.name} is wrong" for case in cases if not case.passed]
        found[name] = [str(f) for f in session.findings] + wrong
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
