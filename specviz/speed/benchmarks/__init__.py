"""Measured speed: decoders side by side on one clock."""
