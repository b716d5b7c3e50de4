"""What keeps the parts of a stack running: those that crash are started again, next processes stand by."""
