"""Modules trained onto a frozen target: Medusa heads and early exits, read from folders."""
