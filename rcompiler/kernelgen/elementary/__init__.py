"""Elementary functions of scalars as text, for devices that bring no library of them."""
