"""Serving limits: how far each serving setup is from the target, near ties."""
