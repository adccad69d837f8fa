"""What code under test sees around it: an allow-list of variables, and directories of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

#: Variables that a worker may inherit. Everything else, secrets among it, stays outside.
ALLOWED_ENVIRONMENT = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TZ",
    "LD_LIBRARY_PATH",
    "VIRTUAL_ENV",
    "SYSTEMROOT",
    "ROCM_PATH",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)

#: Every numeric library in a worker uses one thread: work is spread over processes.
FIXED_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
}

#: Directories of one worker, and the variables that name them.
OWN_FOLDERS = {"HOME": "home", "TMPDIR": "tmp"}

#: Directories that the workers of a pool share: what one has compiled, the others need not.
POOL_FOLDERS = {
    "XDG_CACHE_HOME": "cache",
    "FLYDSL_RUNTIME_CACHE_DIR": "cache/flydsl",
    "TRITON_CACHE_DIR": "cache/triton",
}


def worker_environment(extra: Mapping[str, str], home: Path, own: Path | None = None) -> dict[str, str]:
    """The whole environment of a worker: allow-listed, fixed and device variables, and private directories.

    home: of the pool; own: of this worker (that of the pool if not given).
    """
    environment = {name: os.environ[name] for name in ALLOWED_ENVIRONMENT if name in os.environ}
    environment |= FIXED_ENVIRONMENT
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry or ".") for entry in sys.path)
    places = {name: (own or home) / folder for name, folder in OWN_FOLDERS.items()}
    places |= {name: home / folder for name, folder in POOL_FOLDERS.items()}
    for name, path in places.items():
        path.mkdir(parents=True, exist_ok=True)
        environment[name] = str(path)
    return environment | dict(extra)
