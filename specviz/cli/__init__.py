"""The command line, one file per command: arguments in, one call, text or JSON out. ``bench curves`` is the file ``curves`` in ``bench``.

Each file has ``add_arguments``, which adds the options to a parser, and ``run``, which takes the options and returns the exit code. Summaries,
examples and notes are in assets/commands.toml.
"""
