"""Users' queries: which are running, how they are ended, and the process that runs them."""
