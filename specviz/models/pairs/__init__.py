"""A target, a draft and their tokenizer: names, loading, what fits, fingerprints."""
