"""Rewrite patterns that make the body of an rKernel a body of one rTask: slices, loops, tiles."""
