"""Requests onto lanes: admission, ends, failures and cancellation (B18, B20, B23)."""
