"""The room in which a class makes the evidence together, without a server."""
