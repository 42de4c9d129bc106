"""Papers as files: bounded when read, never written over another."""

import pytest

from ledger.errors import FormatRefused
from p2pmoe.cli.paper_files import read_bounded_file, read_paper, write_new_file
from p2pmoe.errors import ConfigurationError


def test_files_are_read_whole_or_not_at_all(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded_file(path, 5) == b"12345"
    with pytest.raises(ConfigurationError, match="more than 4 bytes"):
        read_bounded_file(path, 4)
    with pytest.raises(ConfigurationError, match="no such file"):
        read_bounded_file(tmp_path / "none", 4)
    with pytest.raises(ConfigurationError, match="is a directory"):
        read_bounded_file(tmp_path, 4)


def test_a_paper_ends_with_its_signature(tmp_path):
    path = tmp_path / "paper"
    path.write_bytes(b"paper" + b"s" * 64)
    assert read_paper(path) == (b"paper", b"s" * 64)
    path.write_bytes(b"s" * 64)
    with pytest.raises(FormatRefused):
        read_paper(path)


def test_what_is_there_is_never_written_over(tmp_path):
    path = tmp_path / "paper"
    write_new_file(path, b"first")
    with pytest.raises(ConfigurationError, match="file exists"):
        write_new_file(path, b"second")
    assert path.read_bytes() == b"first"
    with pytest.raises(ConfigurationError, match="cannot write"):
        write_new_file(tmp_path / "none" / "paper", b"")
