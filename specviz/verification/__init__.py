"""Who decides: distributions from logits, the acceptance rules, the residual, draws. Proposers cannot reach in here."""
