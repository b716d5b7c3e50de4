"""What has the parts of a stack run on: those that crash are started again, others stand by."""
