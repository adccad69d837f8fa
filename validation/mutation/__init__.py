"""Mutation testing of the validator: known defects are built into the sources, and the checks must see them.

``edit`` changes sources and puts the changed ones in place of the real ones, in this process. ``manifest`` reads the
corpus, ``operators`` generate further mutants, ``engine`` runs them in forked workers, ``gate`` judges the outcome.
"""
