"""What programs for packed requests call the argument and the size that are their own."""

LENGTHS = "lengths of requests"  # (requests,) int64, the greatest first
ROWS = "rows"  # the positions of all requests together
