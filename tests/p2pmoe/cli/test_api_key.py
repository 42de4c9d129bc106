"""API keys come from a file or the environment."""

import pytest

from p2pmoe.cli.api_key import ApiKeyUnreadable, read_api_key


def test_the_file_wins_over_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("P2PMOE_API_KEY", "from-environment")
    (tmp_path / "key").write_text("from-file\n", encoding="utf-8")
    assert read_api_key(str(tmp_path / "key")) == "from-file"
    assert read_api_key(None) == "from-environment"


def test_no_key_is_an_empty_one(monkeypatch):
    monkeypatch.delenv("P2PMOE_API_KEY", raising=False)
    assert read_api_key(None) == ""


@pytest.mark.parametrize("content", [None, b"\xff\xfe"])
def test_an_unreadable_file_is_one_line(tmp_path, content):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ApiKeyUnreadable, match="cannot read the API key"):
        read_api_key(str(path))
