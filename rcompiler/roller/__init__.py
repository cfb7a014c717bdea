"""Roller (OSDI'22): rTiles of tensor expressions, aligned with a device. Pure Python and numpy."""
