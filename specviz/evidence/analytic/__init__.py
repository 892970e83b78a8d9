"""The next-token distribution of the real decoder, with its caches, against an uncached pass of the target."""
