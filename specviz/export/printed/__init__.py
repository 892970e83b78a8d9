"""Pictures for paper by matplotlib, without a browser."""
