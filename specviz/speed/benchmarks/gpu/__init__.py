"""Everything that only a GPU can tell: ``bench gpu``."""
