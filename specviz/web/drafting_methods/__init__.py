"""The page *Drafting methods*: exactness, tokens per target pass and speed of each method, and a round of each as a tree."""
