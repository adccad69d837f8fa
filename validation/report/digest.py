"""A digest over what a report says.

It tells a report that was changed after it was written: by an editor, a broken transfer, a merge conflict. It is no
signature. Whoever can edit a report can compute the digest anew; only the semantic checks of
:mod:`validation.report.check` stand in the way of a consistent forgery, and none of them proves who wrote it. Where
that matters, validate again, or let CI keep and sign the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

FIELD = "digest"


def canonical(report: Mapping[str, Any]) -> bytes:
    """The content of ``report`` without its digest: sorted keys, no white space, UTF-8."""
    content = {key: value for key, value in report.items() if key != FIELD}
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(report: Mapping[str, Any]) -> str:
    """``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(canonical(report)).hexdigest()}"
