"""Published mistakes as arguments of ``decode``: each replaces or wraps one of them, none is inside the production path.

``MUTANTS`` is the list, by id; the rows are those of docs/mistakes.md. ``MUTANTS["R5"].arguments(pair.open, settings)`` gives
target, proposer, rule and what is done to the coins, for a pair of networks or for tables alike.
"""

from specviz.evidence.mutants.catalogue import MUTANTS
from specviz.evidence.mutants.mistakes import REPLACED, TIERS
from specviz.evidence.mutants.record import TOY_P, TOY_Q, Arguments, Mutant, on_tables

__all__ = ["MUTANTS", "REPLACED", "TIERS", "TOY_P", "TOY_Q", "Arguments", "Mutant", "on_tables"]
