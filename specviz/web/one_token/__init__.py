"""The page *Why it is exact*: acceptance and residual of one token, with two distributions to drag."""
