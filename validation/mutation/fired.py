"""Which checks saw something, by the record that a stage made of a case."""

from __future__ import annotations

from typing import Any

from validation.launched import SHAPE_WORDS

#: Tier of a failed comparison to the check's name; other tiers are called as they are.
_TIERS = {"bound": "oracle", "exact": "oracle", "end to end": "oracle"}
#: Stage to the one name that its failures go by, whatever it compared.
_STAGES = {"contract": "contract", "cost": "cost", "compile": "isa"}
#: What a protocol scenario calls a comparison with the oracle and a deadlock.
_CAUGHT = {"value": "oracle", "deadlock": "fault"}


def checks_fired(stage: str, fragment: dict[str, Any]) -> list[str]:
    """Names of the checks behind a failed case (see ``check`` of the manifest's schema), each once."""
    if fragment["status"] != "fail":
        return []
    if stage in _STAGES:
        return [_STAGES[stage]]
    if stage == "protocol":
        caught = [_CAUGHT.get(name, name) for run in fragment["protocol"]["runs"] for name in run["caught"]]
        return ["protocol", *dict.fromkeys(caught)]
    fired = [finding["check"] for finding in fragment.get("findings", ())]
    fired += [
        _TIERS.get(comparison["tier"], comparison["tier"])
        for comparison in fragment.get("comparisons", ())
        if not comparison["passed"]
    ]
    reason = fragment["reason"]
    if "guard bytes changed" in reason:
        fired.append("guard")
    if "which no launch took" in reason or "none expected" in reason:
        fired.append("path")
    if any(words in reason for words in SHAPE_WORDS):
        fired.append("shapes")
    if reason.startswith("refused a legal call"):
        fired.append("refused")
    return list(dict.fromkeys(fired)) or ["fault"]
