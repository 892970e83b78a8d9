"""Eight questions: situations from the recorded runs, what may be answered, and why each wrong answer is wrong."""
