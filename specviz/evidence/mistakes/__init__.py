"""Published mistakes as arguments of ``decode``: each replaces or wraps one of them, none is inside the production path."""
