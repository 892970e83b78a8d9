"""The page *Break it*: decoders with known bugs, what they write, and how many samples it takes to detect each."""
