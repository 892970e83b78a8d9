"""Modules trained onto a frozen target: Medusa heads, EAGLE heads and early exits, read from folders."""
