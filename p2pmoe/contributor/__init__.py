"""A contributor's side of a running worker: what it shows, and what may be asked of it.

`report` puts state and figures into words, `desk` does what is asked, `control_socket`
and `page` are the two ways to ask: commands of the same user, and a page on 127.0.0.1.
"""
