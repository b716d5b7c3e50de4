"""What outlives the process: the states of the slots with their positions, and how the log has been cut
since."""
