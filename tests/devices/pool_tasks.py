"""Code under test that does what it must not: a stage module whose tasks do what their payload says."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from validation.cases import fragment


def execute(payload: dict[str, Any], context: Any) -> dict[str, Any]:
    return fragment("pass", facts=globals()[payload["do"]](payload) or {})


def _answer_pipe() -> int:
    return int(next(word for word in sys.argv if word.startswith("--write-fd=")).partition("=")[2])


def _request() -> dict[str, Any]:
    """The request that is being carried out, as code under test could find it."""
    frame: Any = sys._getframe()
    while "request" not in frame.f_locals or not isinstance(frame.f_locals["request"], dict):
        frame = frame.f_back
    return dict(frame.f_locals["request"])


def _say(**message: Any) -> None:
    os.write(_answer_pipe(), (json.dumps(message) + "\n").encode())


def _forge(request: dict[str, Any], **more: Any) -> None:
    _say(id=request["id"], nonce=request["nonce"], value=fragment("pass"), **more)


def nothing(payload: dict[str, Any]) -> None:
    pass


def surroundings(payload: dict[str, Any]) -> dict[str, Any]:
    Path(os.environ["TMPDIR"], payload["name"]).touch()
    return {
        "environment": dict(os.environ),
        "cwd": os.getcwd(),
        "tmp": sorted(os.listdir(os.environ["TMPDIR"])),
        "core": resource.getrlimit(resource.RLIMIT_CORE),
        "oom": int(Path("/proc/self/oom_score_adj").read_text()),
        "keeper": os.getppid(),
    }


# -- ends ---------------------------------------------------------------------------------------------------------


def segfault(payload: dict[str, Any]) -> None:
    ctypes.string_at(0)


def aborts(payload: dict[str, Any]) -> None:
    os.abort()


def hangs(payload: dict[str, Any]) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})
    while True:
        time.sleep(60)


def stops_itself(payload: dict[str, Any]) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def eats_memory(payload: dict[str, Any]) -> None:
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))
        time.sleep(0.005)


def child_eats_memory(payload: dict[str, Any]) -> None:
    subprocess.run([sys.executable, "-S", "-c", "x = b'x' * (160 << 20); import time; time.sleep(60)"])


def closes_pipes(payload: dict[str, Any]) -> None:
    os.closerange(0, 256)
    time.sleep(60)


def floods(payload: dict[str, Any]) -> None:
    line = b"e" * (1 << 20)
    while True:
        os.write(2, line)


def talks(payload: dict[str, Any]) -> None:
    for _ in range(64):
        os.write(2, b"talk " * (1 << 18))


# -- processes ----------------------------------------------------------------------------------------------------


def _daemon(payload: dict[str, Any]) -> None:
    """A grandchild in a session of its own, whose parent has gone, with every descriptor of ours open."""
    if os.fork() == 0:
        os.setsid()
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
        Path(payload["note"]).write_text(str(pid))
        os._exit(0)
    while not (os.path.exists(payload["note"]) and Path(payload["note"]).read_text()):
        time.sleep(0.005)


def leaves_a_daemon(payload: dict[str, Any]) -> None:
    _daemon(payload)


def leaves_a_daemon_and_crashes(payload: dict[str, Any]) -> None:
    _daemon(payload)
    ctypes.string_at(0)


def leaves_a_daemon_and_hangs(payload: dict[str, Any]) -> None:
    _daemon(payload)
    hangs(payload)


# -- words on the answer pipe -------------------------------------------------------------------------------------


def answers_first(payload: dict[str, Any]) -> None:
    _forge(_request())


def answers_and_waits(payload: dict[str, Any]) -> None:
    request = _request()
    _forge(request)
    _say(id=request["id"], nonce=request["nonce"], idle=True)


def answers_for_another(payload: dict[str, Any]) -> None:
    _forge(_request() | {"id": payload["other"]})


def answers_without_the_number(payload: dict[str, Any]) -> None:
    _say(id=_request()["id"], value=fragment("pass"))


def answers_later(payload: dict[str, Any]) -> None:
    request = _request()

    def late() -> None:
        _wait_for(payload["begin"])
        _forge(request)
        Path(f"{payload['begin']}.said").touch()

    threading.Thread(target=late, daemon=True).start()


def answers_no_outcome(payload: dict[str, Any]) -> None:
    request = _request()
    _say(id=request["id"], nonce=request["nonce"], value="pass")


def says_ready(payload: dict[str, Any]) -> None:
    _say(ready=1)


def says_a_number(payload: dict[str, Any]) -> None:
    os.write(_answer_pipe(), b"5\n")


def answers_and_crashes(payload: dict[str, Any]) -> None:
    _forge(_request())
    os.abort()


def _wait_for(path: str) -> None:
    while not os.path.exists(path):
        time.sleep(0.005)


def begins_once(payload: dict[str, Any]) -> None:
    """Ends at its second try only."""
    if not os.path.exists(payload["begin"]):
        Path(payload["begin"]).touch()
        time.sleep(600)


# -- Dask workers -------------------------------------------------------------------------------------------------


def who(payload: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid(), "dask": _dask_worker(), "environment": dict(os.environ)}


def _dask_worker() -> int:
    """The process above our keeper: the Dask worker whose thread started it."""
    keeper = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(keeper.rpartition(")")[2].split()[1])


def loses_its_dask_worker(payload: dict[str, Any]) -> None:
    """The first ``times`` times, with a daemon left behind."""
    tries = Path(payload["tries"])
    with tries.open("a") as stream:
        stream.write(f"{_dask_worker()}\n")
    if len(tries.read_text().splitlines()) <= payload["times"]:
        _daemon({"note": f"{payload['tries']}.daemon{_dask_worker()}"})
        os.kill(_dask_worker(), signal.SIGKILL)
        time.sleep(600)
