"""Is a server that runs right now exact? Its samples are collected, its traps probed, and what it does is judged and named."""
