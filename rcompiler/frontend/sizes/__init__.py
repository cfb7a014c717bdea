"""What operators do with tensors whose sizes are known at run time only, a rule for each."""
