"""The fake operation's own code: an exception from here is the operation's, not the harness's."""


def refuse() -> None:
    raise ValueError("size must be even, got 1")
