"""Which ops of S1 become one rOperator."""
