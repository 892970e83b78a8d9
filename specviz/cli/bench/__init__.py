"""``bench``: the speed table; ``bench NAME``: another measurement, in the file of its name."""

from specviz.cli.bench.table import add_arguments, run

__all__ = ["add_arguments", "run"]
