"""Queries of users: which run, how they are ended, and the process that runs them."""
