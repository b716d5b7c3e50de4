"""The rules of triggers (SEMANTICS-FRONTENDS, S5): which rows they see, what failures mean, their states."""
