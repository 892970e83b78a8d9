"""Why it is exact: one token, two distributions to drag."""
