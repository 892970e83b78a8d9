"""Samples that any server has drawn, from files: against local weights, or two files against each other."""
