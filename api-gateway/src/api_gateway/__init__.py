"""api-gateway: SQL over REST, the catalog's only writer, the resource API of streams."""
