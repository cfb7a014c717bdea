"""What `.ci/run` does: the steps of the check, which of them have to run, and what they found."""
