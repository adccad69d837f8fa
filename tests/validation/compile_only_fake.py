"""A fake device that can compile and nothing else."""

from validation.devices import Claim

LEVEL = "compile-only"
COVERS = {"checks": [], "schedules": "none", "memory": "none"}


def claim(arch: str) -> Claim:
    return Claim("compile-only-fake", LEVEL, True, "a compiler is there")


def worker_environment(arch: str) -> dict[str, str]:
    return {"ARCH": arch}
