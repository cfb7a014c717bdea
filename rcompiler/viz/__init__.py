"""Schedules to look at: one view model, written as a page, a trace or a record."""
