"""What it costs and gains, by the clock: contestants side by side, in one process."""
