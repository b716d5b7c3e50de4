"""Who may talk to a service: the token that services show one another, TLS, and secrets kept in files."""
