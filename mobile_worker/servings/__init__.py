"""This side's running accounts: leaves, vouchers, grants, and their filing."""
