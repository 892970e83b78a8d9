"""Why it is exact: two distributions over one token."""
