"""Who asks: passwords, tokens, failed logins."""
