"""``hcgr-validate --base REV``: the same cases on another revision of the code under test, and what a change did.

The code of the base runs, and the judge of the head: cases, drivers, oracle and checkers are those of the checkout that
is being validated, so that both revisions answer the same questions. What the head changed in the judge itself is a
finding of its own (:mod:`validation.base.policy`).
"""
