"""The samples that pages open with: their records, which need no torch, and what draws them for ``specviz record``."""
