"""Does speculation pay on a running server? Streams prompts to it with speculation and without, in turns, and estimates the speed-up."""
