"""The page *Whole text*: one prompt continued with and without draft tokens."""
