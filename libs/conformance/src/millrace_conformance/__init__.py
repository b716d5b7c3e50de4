"""Runs conformance cases: SQL that a user would send, and the rows and notifications that must result."""
