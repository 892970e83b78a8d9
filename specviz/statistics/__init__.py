"""Does a sample follow an exact distribution? Arrays in, findings out, with the power of each test. No models, no torch."""
