"""How the shipped pair was made, and how to make another. Reached from the command line alone."""
