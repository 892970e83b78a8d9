"""Does a sample follow an exact distribution? Arrays in, findings out; each finding states what the test could have seen. No models, no torch."""
