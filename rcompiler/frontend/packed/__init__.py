"""Batches of requests of different lengths without padding: rows in the place of (batch, seq)."""
