"""int32 index overflow in Triton, Gluon and FlyDSL kernels, found in the syntax tree.

The scanner evaluates device functions abstractly: each integer carries its width (compile time, 32 or 64 bits),
the largest magnitude that a table of production-scale limits allows (:mod:`validation.width_scan.limits`), and
the 32-bit operations in its history that exceed 2**31 within those limits. An operation is a finding once such a
value reaches an address. Scanned code is parsed, never imported.

>>> from validation.width_scan import scan_source
>>> source = '''
... import triton, triton.language as tl
... @triton.jit
... def copy(x_ptr, stride, BLOCK: tl.constexpr):
...     row = tl.program_id(0)
...     tl.load(x_ptr + row * stride + tl.arange(0, BLOCK))
... '''
>>> [finding.line for finding in scan_source(source).findings]
[6]
"""

from validation.width_scan.findings import FileStatus, Finding, ScanResult
from validation.width_scan.scan import scan_paths, scan_source

__all__ = ["FileStatus", "Finding", "ScanResult", "scan_paths", "scan_source"]
