"""What travels between services: topic names, and the messages on each topic."""
