"""Published mistakes as arguments of ``decode``: each replaces or wraps one of them, none is inside the production path.

``catalog.MUTANTS`` is the list, by id; the rows are those of docs/reference/mistakes.md. ``MUTANTS["R5"].arguments(pair.open, settings)``
gives target, proposer, rule and what is done to the random numbers, for a pair of networks or for tables alike.
"""
