"""The page *Break it*: decoders with known mistakes, what they write, and how many samples it takes to detect each."""
