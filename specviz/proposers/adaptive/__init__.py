"""Chains whose length is decided on the way, and the policies that decide."""
