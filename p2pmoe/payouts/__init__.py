"""Payouts leave the house: payees, adapters, sending, the bank's own statement.

The ledger (`ledger.payouts`) says what is to be paid and keeps each step; this package
knows how a payment is made and who gets it. Nothing of a payee but the name is ever
stored by the ledger.
"""
