"""Safe and unsafe variants of small kernels, which differ in what orders their accesses and in nothing else.

In a body, ``{a|b}`` is ``a`` in the safe variant and ``b`` in the unsafe one; ``{a}`` is in the safe one only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CHOICE = re.compile(r"\{([^{}|]*)(?:\|([^{}]*))?\}", re.DOTALL)


@dataclass(frozen=True)
class Pair:
    """says: what the finding about the unsafe variant says. check: which check makes it."""

    name: str
    body: str
    says: str
    groups: int = 1
    lanes: int = 256
    check: str = "racecheck"

    @property
    def safe(self) -> str:
        return _CHOICE.sub(lambda m: m[1], self.body)

    @property
    def unsafe(self) -> str:
        return _CHOICE.sub(lambda m: m[2] or "", self.body)


#: From here on one lane of wave 0 is active, until ALL.
ONE = """
v_cmp_eq_u32_e32 vcc, 0, v0
s_and_saveexec_b64 s[12:13], vcc
"""
ALL = """
s_mov_b64 exec, s[20:21]
"""
