"""A running service's own socket: its user's commands, and nobody else's.

`address` finds it in a folder of any depth, `lines` reads and writes what goes over it,
`serving` answers at it, `asking` is the other end.
"""
