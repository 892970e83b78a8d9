"""Fast passes through a Llama-style model: layers without wrappers, packed and 8-bit products, one-token steps."""
