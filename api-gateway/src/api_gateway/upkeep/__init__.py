"""What runs beside the requests: recovery, registrations of producers' tables, topics that forget."""
