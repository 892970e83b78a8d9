"""Who guesses. A proposer returns tokens with the laws they were drawn from; it never learns what a rule will decide."""
