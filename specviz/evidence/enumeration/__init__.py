"""The exact distribution of what a decoder writes on small tables, by walking every outcome of the production step."""
