"""What outlives the process: the slots' states with their positions, and how the log has been cut since."""
