"""A round that stays on the models' device: its fixed caches, the rules on all rows at once, and which engine runs a round."""
