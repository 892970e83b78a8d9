"""Who decides: laws from logits, the acceptance rule, the residual, draws. Proposers cannot reach in here."""
