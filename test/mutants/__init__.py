"""Faults that are seeded one at a time, and whether the check of each finds it."""
