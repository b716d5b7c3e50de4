"""What names mean: tables and columns, ``*``, tags, the pseudo columns of a query's time range."""
