"""The options of ``hcgr-validate`` and ``hcgr-mutate`` that say where the work is done."""

from __future__ import annotations

import argparse

from validation.command_line import UsageError
from validation.executors import NAMES, SCHEDULER_VARIABLE


def add_executor(parser: argparse.ArgumentParser) -> None:
    """Add ``--executor`` and ``--scheduler``."""
    parser.add_argument(
        "--executor",
        choices=NAMES,
        default="local",
        help="local: worker processes of this machine; dask: those of the workers of a Dask cluster, which needs the "
        "extra 'dask' (default: local)",
    )
    parser.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="with --executor dask: join the cluster of this scheduler, like tcp://host:8786 (or "
        f"${SCHEDULER_VARIABLE}); without one a cluster of --jobs workers is started here",
    )


def check_executor(options: argparse.Namespace) -> None:
    """Refuse what would be ignored.

    Raises:
        UsageError: a scheduler without ``--executor dask``.
    """
    if options.scheduler and options.executor != "dask":
        raise UsageError("--scheduler is for --executor dask, which is not given")
