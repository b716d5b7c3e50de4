"""Types of expressions, and the values of those that are constant."""
