"""Shared by Exactness test and Find the bug: samples of two decoders, the recorded ones, and what tests found in them."""
