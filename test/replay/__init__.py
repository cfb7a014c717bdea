"""A fixed set of compilations, and what they made: a refactoring leaves all of it equal."""
