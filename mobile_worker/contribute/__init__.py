"""A worker's life: join, offer, lease, fetch, serve, drain."""
