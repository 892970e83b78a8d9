"""The exact distribution of what a decoder writes, without a sample: by enumeration, and along a text by the real decoder with its caches."""
