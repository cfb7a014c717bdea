"""Tensors with blocked channels: which ops can work on them, and as what."""
