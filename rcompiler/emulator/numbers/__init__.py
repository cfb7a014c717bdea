"""Arithmetic as PTX defines it, on numpy arrays: what numpy does otherwise, or not at all."""
