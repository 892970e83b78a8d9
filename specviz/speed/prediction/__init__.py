"""Predicted speed: from acceptance and costs, for one text, for batches, for another machine, and before a download."""
