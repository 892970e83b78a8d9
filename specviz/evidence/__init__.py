"""Is the output exact? Enumeration, distributions along a text, samples and tests, certificates, mutants."""
