"""Draw the shards of a run on several machines, or on all cores of this one. Ray is imported only here, and only when asked for."""
