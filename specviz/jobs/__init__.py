"""Pieces of work on other cores and machines: worker processes of this machine, or of a Ray cluster. Ray is imported only here, and only when asked for."""
