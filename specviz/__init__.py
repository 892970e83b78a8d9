"""Exact speculative decoding on real models, shown step by step. Proposal is separate from authority."""

__version__ = "0.1.0"
