"""Drafting methods: the comparison, a round as a tree, the matrix."""
