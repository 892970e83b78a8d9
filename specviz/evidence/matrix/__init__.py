"""Every drafting method under every rule: one question, one table."""
