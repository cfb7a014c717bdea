"""Products with constant weights: which to compute as one, and how."""
