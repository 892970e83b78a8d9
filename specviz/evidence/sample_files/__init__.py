"""Samples of any server in a file: reading and checking them, and reports on them."""
