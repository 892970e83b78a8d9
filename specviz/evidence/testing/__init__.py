"""From samples to a report: the cells they are counted in, the scores of their tokens, the tests, and what the tests found."""
