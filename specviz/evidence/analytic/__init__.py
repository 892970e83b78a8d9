"""The distribution of the next token under the real decoder, caches and all, against a fresh pass of the target."""
