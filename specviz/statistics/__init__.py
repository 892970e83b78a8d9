"""Is a heap of draws distributed as an exact law? Arrays in, findings out; each says what it could have seen. No models, no torch."""
