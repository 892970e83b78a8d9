"""A report that others can check: digests, numbers that follow from each other, samples drawn again."""
