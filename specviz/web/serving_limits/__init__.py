"""The page *Serving limits*: what exactness does not cover, such as quantization, precision and logits processors."""
