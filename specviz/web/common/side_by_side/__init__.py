"""What Is it exact? and Break it share: samples of two decoders, the recorded ones, and what tests found in them."""
