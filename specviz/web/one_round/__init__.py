"""The page *One round*: one round of decoding, step by step."""
