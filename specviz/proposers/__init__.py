"""Drafting methods. A proposer returns tokens with the distributions they were drawn from; it never learns what a rule decides."""
