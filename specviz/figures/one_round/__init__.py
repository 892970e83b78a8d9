"""One round: a trace as the stage draws it."""
