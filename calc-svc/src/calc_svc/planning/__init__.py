"""Planning users' statements: apart from calc-svc's own interpreter, which streams need."""
