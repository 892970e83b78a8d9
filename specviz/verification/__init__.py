"""Verification: distributions from logits, the rules that accept or reject draft tokens, draws. Proposers cannot affect it."""
