"""What operators do with packed tensors, a module for each kind of them."""
