"""``pairs``: the pairs that are known; ``pairs check`` and ``pairs download``: a pair of one's own, in the files of these names."""

from specviz.cli.pairs.listing import add_arguments, run

__all__ = ["add_arguments", "run"]
