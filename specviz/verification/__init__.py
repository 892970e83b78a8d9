"""Verification: logits become distributions, a rule accepts or rejects draft tokens, and tokens are drawn. Proposers have no access to it."""
