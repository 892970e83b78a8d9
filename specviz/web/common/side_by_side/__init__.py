"""Shared by Exactness test and Break it: samples of two decoders, the recorded ones, and what tests found in them."""
