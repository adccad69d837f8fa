"""The report: how it is built, what it must satisfy, how it reaches the disk, and what a terminal shows of it."""
