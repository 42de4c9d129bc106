"""The token: made once, its user's alone, made anew where it cannot be trusted."""

import stat

import pytest

from p2pmoe.contributor.page_file import page_token


def test_it_is_made_once_and_private(tmp_path):
    path = tmp_path / "page.key"
    token = page_token(path)
    assert len(token) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert page_token(path) == token
    assert page_token(tmp_path / "other.key") != token


@pytest.mark.parametrize("content", ["", "short", "x" * 40, "\xff" * 32])
def test_one_that_is_none_is_replaced(tmp_path, content):
    path = tmp_path / "page.key"
    path.write_text(content, encoding="latin-1")
    path.chmod(0o600)
    assert page_token(path) not in (content, "")


def test_one_that_others_may_read_is_replaced(tmp_path):
    path = tmp_path / "page.key"
    token = page_token(path)
    path.chmod(0o644)
    assert page_token(path) != token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_is_not_followed(tmp_path):
    secret = tmp_path / "elsewhere"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    (tmp_path / "page.key").symlink_to(secret)
    assert page_token(tmp_path / "page.key") != "s" * 32
    assert secret.read_text() == "s" * 32
