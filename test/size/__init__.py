"""How large the product is, and that it does not grow unnoticed."""
