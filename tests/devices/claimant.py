"""A process that claims a GPU of the machine at argv[1], prints the claim, and keeps it until its input ends."""

import json
import sys
from pathlib import Path

from tests.devices.machine import Machine
from validation.devices import hip

hip.SYSTEM = Machine(Path(sys.argv[1])).system
hip._not_seen_by_torch = lambda arch: None
print(json.dumps(hip.claim(sys.argv[2]).as_json()), flush=True)
sys.stdin.read()
