"""Termux: known by its marks; what is missing is named with the line that helps."""

import sys

import pytest

from p2pmoe.cli import main, termux
from p2pmoe.cli.termux import is_termux, missing_packages, refusal


def test_it_is_known_by_its_marks() -> None:
    assert is_termux("android", {})
    assert is_termux("linux", {"TERMUX_VERSION": "0.119.0"})
    assert not is_termux("linux", {})


def test_what_is_not_here_is_named_by_its_package() -> None:
    assert missing_packages() == []
    there = {"numpy"}
    missing = missing_packages(lambda name: name if name in there else None)
    assert missing == ["python-cryptography", "python-msgpack"]
    line = refusal(missing)
    assert "pkg install python python-cryptography python-msgpack" in line
    assert "--only-binary=:all:" in line
    assert "\n" not in line


def test_a_phone_without_them_is_told_before_anything_is_imported(monkeypatch, capsys):
    monkeypatch.setattr(termux, "missing_packages", lambda: ["python-numpy"])
    monkeypatch.setattr(sys, "argv", ["p2pmoe", "contribute"])
    monkeypatch.setenv("TERMUX_VERSION", "0.119.0")
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: python-numpy must come from Termux itself")
