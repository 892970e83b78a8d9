"""Server profiles: how each server is recognized, what it must be sent, and how its answers are read. One file per server."""
