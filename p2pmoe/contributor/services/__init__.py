"""A worker that starts with its user's session: units for systemd, launchd, runit.

`plan` says what is written where and which commands follow; nothing else is touched.
"""
