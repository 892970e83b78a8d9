"""The page *Eight questions*: situations of the recorded runs, answered in the browser."""
