"""Summary: the end of the tour."""
