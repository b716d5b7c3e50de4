"""What runs beside the requests: recovery, registration of producers' tables, trimming of topics."""
