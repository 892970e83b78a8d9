"""Audit a running server: collect samples from it, test them, and say how they differ."""
