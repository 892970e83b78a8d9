"""The page *Exactness test*: samples beside the exact distribution, and the smallest difference that their tests detect."""
