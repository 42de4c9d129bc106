"""A running service's own socket: its user's commands, and nobody else's.

`address` finds it in a folder of any depth, `serving` answers lines at it, `asking` is
the other end.
"""
