"""Hardware as plain data: no algorithm, no driver, nothing of the rest of the compiler."""
