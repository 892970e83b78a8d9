"""The page *Find the bug*: decoders with known mistakes, what they write, and how many samples it takes to detect each."""
