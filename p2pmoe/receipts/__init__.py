"""A worker's own books: its copy of what it filed, compared with the ledger's."""
