"""The page *Exact to what?*: what exactness does not cover, such as quantization, precision and logits processors."""
