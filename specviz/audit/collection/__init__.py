"""Collect the samples of one server: preflight checks, a forecast, the requests, and other traffic beside them."""
