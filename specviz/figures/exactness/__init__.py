"""Is it exact? Samples over the exact distribution, p-values."""
