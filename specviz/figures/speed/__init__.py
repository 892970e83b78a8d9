"""How fast? Plans, acceptance, cost surfaces, batches."""
