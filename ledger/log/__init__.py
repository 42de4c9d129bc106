"""The public log of closed vouchers: tiles, checkpoints, witnesses."""
