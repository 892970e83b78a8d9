"""How fast? What is gained, and can it be known beforehand?"""
