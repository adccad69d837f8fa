"""Protocol scenarios under adverse schedules, memory and completion; and the broken variants that must be caught.

A scenario's own case runs the code as it is, under every setting of the level: each comparison must hold and no
checker may find anything. Each tooth is a case too: it runs a broken variant and passes when the check that it aims
at catches it. A variant that survives fails the stage. A patch that does not fit, machine code that did not change,
no launch, an exception of ours or a name that does not exist is an error, never a catch.

``--case`` takes ``protocol.<scenario>``, ``protocol.<scenario>.<tooth>``, and either with ``@<setting>`` for one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from validation.cases import Task, case_seed, comparison, fragment, replay_command
from validation.near import hint
from validation.operation import JsonDict, SkipCase, resolve_reference
from validation.protocol import Scenario, Setting, Tooth, Trial
from validation.stages import Request
from validation.stages.blame import raised_in

NAME = "protocol"
TITLE = "Protocol scenarios"
NEEDS = "emulated"
LEVEL = "emulated"
SETTLES = False

#: What a refusal of the code under test is never: a slip in it, or in the patch of a variant, which breaks no promise.
SLIPS = (NameError, AttributeError, ImportError)
#: Seeds of schedules are below this, so that a setting's name stays short.
SEEDS = 10_000


def plan(request: Request) -> list[Task]:
    """Each scenario, then its teeth."""
    return [
        _task(request, scenario, tooth) for scenario in request.operation.protocol for tooth in (None, *scenario.teeth)
    ]


def find(request: Request, case_id: str) -> Task:
    """The task of that name, with ``@<setting>`` under this setting only."""
    name, _, setting = case_id.partition("@")
    parts = name.split(".")
    if len(parts) not in (2, 3):
        raise LookupError(f"case {case_id!r} must look like {NAME}.<scenario>[.<tooth>][@<setting>]")
    scenario = _scenario(request.operation.protocol, parts[1])
    tooth = scenario.tooth(parts[2]) if len(parts) == 3 else None
    return _task(request, scenario, tooth, (Setting.parse(setting),) if setting else ())


def _scenario(scenarios: Sequence[Scenario], name: str) -> Scenario:
    for scenario in scenarios:
        if scenario.name == name:
            return scenario
    known = [scenario.name for scenario in scenarios]
    raise LookupError(f"no protocol scenario {name!r} (there are: {', '.join(known) or 'none'}){hint(name, known)}")


def _task(request: Request, scenario: Scenario, tooth: Tooth | None, only: Sequence[Setting] = ()) -> Task:
    name = f"{NAME}.{scenario.name}" + (f".{tooth.name}" if tooth else "")
    seed = case_seed(request.seed, f"{NAME}.{scenario.name}")
    settings = list(only) or scenario.settings(request.level, seed % SEEDS)
    if tooth and not only:
        settings = list(dict.fromkeys((*tooth.first, *settings)))
    payload = {
        "op": request.operation_name,
        "scenario": scenario.name,
        "tooth": tooth.name if tooth else None,
        "settings": [str(setting) for setting in settings],
        "replay": replay_command(request.operation_name, request.arch, name, request.seed, request.level),
        "name": name,
    }
    why = f"caught by {tooth.check}: {tooth.broken}" if tooth else scenario.proves
    params = {"settings": len(settings)}
    identity = f"{name}@{only[0]}" if only else name
    return Task(identity, NAME, payload, (why,), params, seed, scenario.timeout_s)


def execute(payload: JsonDict, context: Any) -> JsonDict:
    """Run a scenario, or one of its broken variants."""
    operation = context.operation(payload["op"])
    scenario = _scenario(operation.protocol, payload["scenario"])
    settings = [Setting.parse(text) for text in payload["settings"]]
    with context.bench() as bench:
        if not hasattr(bench, "watch_code"):
            return fragment("skip", "this device cannot be told which legal behaviour to show")
    if payload["tooth"] is None:
        return _real(scenario, settings, payload, context, operation.packages)
    return _broken(scenario, scenario.tooth(payload["tooth"]), settings, payload, context, operation.packages)


# -- one run -----------------------------------------------------------------------------------------------------------


def _run(scenario: Scenario, setting: Setting, context: Any, packages: Sequence[str], folder: str = "") -> JsonDict:
    """One run: its launches, findings and checks, and what caught what is wrong, by check.

    ``folder`` holds edited sources; messages name them as the real ones.
    """
    with context.bench() as bench:
        trial = Trial(bench, setting)
        caught: dict[str, str] = {}
        try:
            resolve_reference(scenario.run)(trial)
        except SkipCase:
            raise
        except Exception as error:  # of whatever kind: _accuse raises again what is not the code under test's
            caught |= _accuse(error, bench, packages, trial)
    for finding in trial.findings:
        caught.setdefault(finding["check"], _place(finding))
    for check in trial.checks:
        if not check["passed"]:
            caught.setdefault(check["tier"], f"{check['output']}: {check['message']}")
    return {
        "setting": setting,
        "launches": trial.launches,
        "findings": trial.findings,
        "checks": trial.checks,
        "caught": {check: message.replace(folder, "") for check, message in caught.items()} if folder else caught,
    }


def _accuse(error: Exception, bench: Any, packages: Sequence[str], trial: Trial) -> dict[str, str]:
    """The check that an exception stands for; ours is raised again."""
    blamed = bench.blame(error)
    if blamed is not None:
        reason, findings = blamed
        trial.findings += findings
        kind = "deadlock" if type(error).__name__ == "DeadlockError" else "memcheck"
        return {kind: reason}
    if raised_in(error) in packages and not isinstance(error, SLIPS):
        return {"contract": f"{type(error).__name__}: {error}"}
    raise error


def _place(finding: JsonDict) -> str:
    where = f" at {finding['source_file']}:{finding['source_line']}" if finding.get("source_file") else ""
    return f"{finding['message']}{where}"


def _row(run: JsonDict) -> JsonDict:
    """The report's record of one run."""
    setting: Setting = run["setting"]
    return {
        "schedule": setting.schedule,
        "memory": setting.memory,
        "completion": setting.completion,
        "checkers": list(setting.checkers),
        "seed": setting.seed(),
        "launches": len(run["launches"]),
        "workgroups": sum(launch["workgroups_run"] for launch in run["launches"]),
        "compared": len(run["checks"]),
        "caught": run["caught"],
    }


# -- the code as it is -------------------------------------------------------------------------------------------------


def _real(
    scenario: Scenario, settings: Sequence[Setting], payload: JsonDict, context: Any, packages: Sequence[str]
) -> JsonDict:
    """Every setting; nothing may be caught, and every run must launch and compare something."""
    runs = [_run(scenario, setting, context, packages) for setting in settings]
    idle = [run for run in runs if not run["caught"] and not (_row(run)["workgroups"] and run["checks"])]
    wrong = [run for run in runs if run["caught"]]
    status, reason = "pass", ""
    if wrong:
        check, message = next(iter(wrong[0]["caught"].items()))
        status = "fail"
        reason = (
            f"{len(wrong)} of {len(runs)} runs: {check} under {wrong[0]['setting']}: {message}; "
            f"alone: {_alone(payload, wrong[0]['setting'])}"
        )
    elif idle or not runs:
        under = f" under {idle[0]['setting']}" if idle else ""
        status, reason = "error", f"nothing was launched or nothing was compared{under}"
    return fragment(
        status,
        reason,
        launches=[launch for run in runs for launch in run["launches"]],
        findings=[finding for run in runs for finding in run["findings"]],
        comparisons=_merged(runs),
        protocol=_record(scenario, None, runs),
    )


def _alone(payload: JsonDict, setting: Setting) -> str:
    return str(payload["replay"].replace(f"--case {payload['name']}", f"--case {payload['name']}@{setting}"))


def _merged(runs: Sequence[JsonDict]) -> list[JsonDict]:
    """One record for each output and tier: how often it was compared, or the first failure."""
    by_output: dict[tuple[str, str], list[JsonDict]] = {}
    for run in runs:
        for check in run["checks"]:
            by_output.setdefault((check["output"], check["tier"]), []).append(check)
    merged = []
    for (output, tier), checks in by_output.items():
        failed = next((check for check in checks if not check["passed"]), None)
        message = failed["message"] if failed else f"as due, {len(checks)} times"
        elements = sum(check["elements"] or 0 for check in checks) or None
        merged.append(comparison(output, tier, failed is None, message, elements=elements))
    return merged


def _record(scenario: Scenario, tooth: JsonDict | None, runs: Sequence[JsonDict]) -> JsonDict:
    return {
        "scenario": scenario.name,
        "proves": scenario.proves,
        "tooth": tooth,
        "runs": [_row(run) for run in runs],
    }


# -- broken variants ---------------------------------------------------------------------------------------------------


def _broken(
    scenario: Scenario,
    tooth: Tooth,
    settings: Sequence[Setting],
    payload: JsonDict,
    context: Any,
    packages: Sequence[str],
) -> JsonDict:
    """Settings in turn until the check that the tooth aims at has caught the variant."""
    original = _code(scenario, settings[0], context, packages) if tooth.kernel else {}
    runs: list[JsonDict] = []
    changed: list[str] = []
    with _applied(tooth, context) as (code, folder):
        for setting in settings:
            runs.append(_run(scenario, setting, context, packages, folder))
            changed = [name for name, text in code.items() if text != original.get(name)] if tooth.kernel else []
            if (tooth.kernel and not changed) or tooth.check in runs[-1]["caught"]:
                break
    caught = {check: message for run in reversed(runs) for check, message in run["caught"].items()}
    facts = {
        "name": tooth.name,
        "broken": tooth.broken,
        "aims_at": tooth.check,
        "changes": tooth.changes(),
        "kernel": tooth.kernel,
        "changed_kernels": changed,
        "caught_by": sorted(caught),
        "evidence": caught.get(tooth.check, ""),
        "caught_under": str(runs[-1]["setting"]) if tooth.check in runs[-1]["caught"] else None,
    }
    status, reason = _judge(tooth, runs, caught, changed)
    return fragment(
        status,
        reason,
        launches=[launch for run in runs for launch in run["launches"]],
        protocol=_record(scenario, facts, runs),
    )


def _judge(tooth: Tooth, runs: Sequence[JsonDict], caught: JsonDict, changed: Sequence[str]) -> tuple[str, str]:
    if tooth.kernel and not changed:
        return "error", "the variant's machine code is the original's: it breaks nothing"
    if not any(_row(run)["workgroups"] for run in runs):
        return "error", "the variant launched nothing"
    if tooth.check in caught:
        return "pass", ""
    seen = f"only {', '.join(sorted(caught))} noticed" if caught else "nothing noticed"
    times = f"{len(runs)} run{'' if len(runs) == 1 else 's'}"
    return "fail", f"SURVIVED {times}: {tooth.check} must catch it, {seen}: {tooth.broken}"


def _code(scenario: Scenario, setting: Setting, context: Any, packages: Sequence[str]) -> JsonDict:
    """Instructions of the kernels that the scenario launches, by name; none of them runs."""
    with context.bench() as bench, bench.watch_code(run=False) as code:
        _run(scenario, setting, context, packages)
    return dict(code)


@contextmanager
def _applied(tooth: Tooth, context: Any) -> Iterator[tuple[JsonDict, str]]:
    """The broken variant in place of the code under test, in this process.

    Yields the code of its kernels, and the folder of the edited sources with a separator behind it.
    """
    from validation.mutation.edit import module_name, variant

    used: set[int] = set()

    def edit(text: str, kernel: str) -> str:
        for i, change in enumerate(tooth.asm):
            if change.kernel in kernel:
                text = change.applied_to(text, kernel)
                used.add(i)
        return text

    with context.bench() as bench, ExitStack() as stack:
        folder = ""
        if tooth.edits:
            modules = stack.enter_context(variant(tooth.edits, tooth.reload))
            place = str(modules[module_name(tooth.edits[0].file)].__file__)
            folder = place.removesuffix(tooth.edits[0].file)
        for cache in tooth.caches:
            stack.enter_context(mock.patch.dict(resolve_reference(cache), clear=True))
        yield stack.enter_context(bench.watch_code(edit)), folder
    unused = [change.kernel for i, change in enumerate(tooth.asm) if i not in used]
    if unused:
        raise ValueError(f"no kernel named like {', '.join(unused)} was launched: the patch did not apply")
