"""The ledger as a peer: the store of `ledger` behind a node."""
