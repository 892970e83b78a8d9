"""Drafting methods. A proposer returns tokens with the distributions they were drawn from; it never learns a rule's decisions."""
