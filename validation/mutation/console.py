"""What a run says while it goes on, and at its end: one line that changes on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

from validation.cases import cut
from validation.mutation import summary
from validation.operation import JsonDict

#: Outcomes that need no line of their own on a terminal.
_EXPECTED = ("killed", "pass", "equivalent")


class Console:
    """See :class:`validation.mutation.engine.Progress`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._title, self._total = "", 0
        self._ended: set[str] = set()

    def phase(self, arch: str, title: str, total: int) -> None:
        """A phase of ``total`` things begins."""
        self._clear()
        self._title, self._total = f"{arch} {title}", total
        self._ended.clear()
        if not self._live:
            self.say(f"{self._title}: {total}")

    def done(self, name: str, outcome: str, what: str) -> None:
        """One of them is done, or its outcome is revised."""
        self._ended.add(name)
        self._clear()
        short = " ".join(what.split())
        if not self._live or outcome not in _EXPECTED:
            shown = cut(short, 200)
            self.say(f"  {outcome:<10} {name}" + (f": {shown}" if shown else ""))
        if self._live:
            line = f"{self._title} {len(self._ended)}/{self._total} {name}"
            self._stream.write(line[: shutil.get_terminal_size().columns - 1])
            self._stream.flush()

    def _clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")

    def say(self, line: str) -> None:
        """One line."""
        print(line, file=self._stream, flush=True)

    def end(self, document: JsonDict, matrix: bool) -> None:
        """The figures of a finished run; the matrix of mutants and checks, if asked for."""
        self._clear()
        if matrix:
            for line in summary.matrix_lines(document["mutants"]):
                self.say(line)
        arch, gate, counts = document["arch"], document["gate"], document["counts"]
        for row in document["checks"]:
            self.say(f"  {row['check']:<18} {row['kills']:>4} kills, {row['alone']} of them alone")
        for record in document["mutants"]:
            if record["outcome"] not in _EXPECTED:
                self.say(f"  {record['outcome'].upper()} {record['name']}: {record['title']}")
                self.say(f"    {record['reason'][:300]}")
                self.say(f"    replay: {record['replay']}")
        for warning in gate["warnings"]:
            self.say(f"  warning: {warning}")
        for reason in gate["reasons"]:
            self.say(f"  {reason}")
        default = document["default_run"]
        self.say(
            f"  {default['seen']} kills by cases of a default hcgr-validate run, {default['beyond']} by others, "
            f"{default['controls']} by positive controls"
        )
        others = ", ".join(f"{number} {name}" for name, number in counts.items() if number and name != "killed")
        rate = "nothing measured" if gate["kill_rate"] is None else f"{gate['kill_rate']:.1%}"
        self.say(
            f"{arch}: {document['verdict']['result']}: {counts['killed']} of {gate['counted']} mutants killed ({rate})"
            + (f"; {others}" if others else "")
            + f"; {document['cpu_s']:.0f} CPU s, {document['duration_s']:.0f} s"
        )
