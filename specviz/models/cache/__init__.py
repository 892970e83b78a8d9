"""Transformers models with a key-value cache that rolls back: decoders, encoder-decoders, masks, columns."""
