"""A stand-in for code under test: broken variants edit this file."""

ROUNDS = 4
GUARDED = True
INSTRUCTIONS = "load\nwait\nstore"
COMMENT = "changes nothing that a machine sees"


def refuse() -> None:
    raise ValueError("a legal call was refused")
