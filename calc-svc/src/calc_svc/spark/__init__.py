"""Spark as calc-svc uses it: its sessions, and queries that are planned once."""
