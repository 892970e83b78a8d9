"""Models: the pair of models in force, which every page names, and the panel in which another one is chosen, checked and downloaded."""
