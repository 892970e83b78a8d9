"""Records of measurements and predictions, as pages and exports read them. Numpy at most: nothing here imports torch."""
