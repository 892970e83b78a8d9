"""Is it exact? Samples over the exact distribution, and what they could have shown."""
