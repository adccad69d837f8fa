"""The tuned table: which plan won for which architecture, kernel, n_pad and token count, and on what evidence.

:mod:`~hcgr.tuned.table` loads it, :mod:`~hcgr.tuned.model` predicts a plan's time from public figures, and
:mod:`~hcgr.tuned.tuner` chooses and writes entries.
"""
