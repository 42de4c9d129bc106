"""Experts in mapped files, computed by a child process that alone bears the risk.

A mapping is a promise that a file can break: touching a page of one that was cut short
ends a process by a signal (fault B03). So `p2pmoe serve` never maps a model. With
`--disk mmap` a child maps it and computes experts; rows go in and values come out over
a socket. Which pages stay in memory is left to the system.

    messages         what the two say to each other, byte by byte
    frames           whole messages on a stream socket, bounded
    mapping          in the child: files as memory, experts as views of it
    child            the child: its loop, its heart beat
    process_figures  what a process holds and has read, as the system tells
    life             in the parent: one child from its start to its end
    restarts         when another may be started
    pending          one layer's calls under way
    mapped_experts   in the parent: the disk tier that asks the child
"""
