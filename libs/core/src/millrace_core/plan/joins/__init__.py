"""TDengine's own joins: SEMI, ANTI, ASOF and WINDOW."""
