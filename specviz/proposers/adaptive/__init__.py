"""Chains whose length is decided while they are drafted, and the policies that decide it."""
