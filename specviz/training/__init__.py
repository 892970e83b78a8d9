"""How the shipped pair was trained, and how to train another. Used only from the command line."""
