"""The exact distribution of what a decoder writes on small tables: every outcome of the production step, enumerated."""
