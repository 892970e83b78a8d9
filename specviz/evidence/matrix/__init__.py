"""Test every drafting method under every acceptance rule, in one table."""
