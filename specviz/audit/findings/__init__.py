"""What the samples of a server say: the verdict, how rejected samples are wrong, and the smallest experiment that shows it again."""
