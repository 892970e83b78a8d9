"""Whole text: a passage as two lanes, and where the models differ."""
