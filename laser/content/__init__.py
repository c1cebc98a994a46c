"""Content-addressed storage: large immutable bytes of a tenant, kept as long as something durable holds them."""
