"""The page *Is it exact?*: samples beside the exact distribution, and the smallest difference that their tests detect."""
