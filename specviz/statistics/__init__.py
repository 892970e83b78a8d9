"""Is a heap of draws distributed as an exact distribution? Arrays in, findings out; each says what it could have seen. No models, no torch."""
