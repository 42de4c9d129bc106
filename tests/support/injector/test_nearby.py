"""The proxy for short distances carries bytes both ways, and holds them."""

import socket

from tests.support.injector.nearby import nearby, round_trip_s


def test_bytes_and_ends_are_carried_both_ways() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with nearby(server.getsockname()[1]) as proxy:
            with socket.create_connection(("127.0.0.1", proxy.port)) as near:
                far, _ = server.accept()
                near.sendall(b"there")
                assert far.recv(99) == b"there"
                far.sendall(b"back")
                assert near.recv(99) == b"back"
                far.close()
                assert near.recv(99) == b""


def test_a_round_trip_is_held_twice() -> None:
    assert round_trip_s(0.002, n_trips=5) >= 0.004
