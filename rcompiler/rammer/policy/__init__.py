"""Scheduling policies: from a graph to a list of programs. All use the same rKernels and costs."""
