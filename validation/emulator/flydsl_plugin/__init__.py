from typing import Any
def __getattr__(name: str) -> Any:
    if name == "EmulatorBackend":
        import flydsl.compiler.backends  # noqa: F401  loads this entry point, so it must come first
        from .backend import EmulatorBackend
        return EmulatorBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
