"""The command line, one file per command: arguments in, one call, text or JSON out."""
