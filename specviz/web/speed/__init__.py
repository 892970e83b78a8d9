"""The page *How fast?*: the measured speed-up, and its prediction."""
