"""A socket in a folder of any depth."""

import socket

import pytest

from p2pmoe.local_socket import address as where
from p2pmoe.local_socket.address import MAX_SOCKET_PATH, socket_address


def test_a_short_path_is_taken_as_it_is(tmp_path):
    with socket_address(tmp_path) as address:
        assert address == str(tmp_path / "control.sock")


def test_a_deep_folders_socket_is_bound_and_found_and_nothing_is_left(tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with socket.socket(socket.AF_UNIX) as bound, socket.socket(socket.AF_UNIX) as one:
        with socket_address(deep) as address:
            assert len(address) <= MAX_SOCKET_PATH
            bound.bind(address)
            bound.listen()
        with socket_address(deep) as address:
            one.connect(address)
    assert [path.name for path in deep.iterdir()] == ["control.sock"]
    assert list(tmp_path.iterdir()) == [deep]


def test_where_open_files_are_not_shown_it_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(where, "_OPEN_FILES", tmp_path / "none")
    deep = tmp_path / ("d" * 120)
    with pytest.raises(OSError, match="too long"), socket_address(deep):
        pass
