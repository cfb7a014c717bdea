"""How each operator may be used: one small generator per operator, one file per family."""
