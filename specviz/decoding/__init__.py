"""The decoder: one engine that proposes, scores, verifies and commits; runs recorded as traces; many samples at once."""
