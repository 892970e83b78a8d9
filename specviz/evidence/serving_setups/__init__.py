"""The target as it is served: quantized, in another precision, behind logits processors. Exactness is relative to that target."""
