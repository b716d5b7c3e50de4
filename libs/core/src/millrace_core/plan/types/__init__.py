"""Types of expressions, and what CAST makes of a value."""
