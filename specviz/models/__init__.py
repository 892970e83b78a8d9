"""Where distributions come from: explicit tables, and transformers models with a cache that rolls back."""
