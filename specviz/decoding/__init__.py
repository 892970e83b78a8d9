"""The decoder: one engine that proposes, scores, verifies and commits, and the runs and samples made with it."""
