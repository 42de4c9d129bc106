"""The ledger: doubly signed receipts and double-entry accounts."""
