"""What surrounds the rule: targets that are served as something else than their published weights, and what that does to their law."""
