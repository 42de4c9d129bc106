"""A text file made ready to be measured on."""

import hashlib
from pathlib import Path

import pytest

from p2pmoe.evaluate import text_plan
from p2pmoe.evaluate.errors import SetRefused
from p2pmoe.evaluate.text_plan import Cutting, plan_text
from tests.support.api import small_tokenizer

SMALL = Cutting(window_tokens=8, n_windows=2, n_continuations=9, continuation_tokens=4)


def write(folder: Path, raw: bytes) -> Path:
    path = folder / "text.txt"
    path.write_bytes(raw)
    return path


def test_with_a_tokenizer_windows_are_ids(tmp_path: Path):
    path = write(tmp_path, b"abcdefgh" * 5)
    plan = plan_text(path, SMALL, small_tokenizer)
    assert plan.sha256 == hashlib.sha256(b"abcdefgh" * 5).hexdigest()
    assert [len(w.prompt) for w in plan.windows] == [8, 8]
    assert all(isinstance(w.prompt, tuple) and w.prompt[0] == 0 for w in plan.windows)
    assert (plan.n_continuations, plan.continuation_tokens) == (2, 4)
    whole = plan_text(path, Cutting(window_tokens=8, n_windows=0), small_tokenizer)
    assert len(whole.windows) == 5


def test_without_one_they_are_text(tmp_path: Path):
    plan = plan_text(write(tmp_path, b"one two " * 20), SMALL, None)
    assert all(isinstance(w.prompt, str) for w in plan.windows)


@pytest.mark.parametrize(
    ("raw", "words"),
    [(b"\xff", "is not UTF-8"), (b"", "is shorter than a window of 8 tokens")],
)
def test_a_text_that_will_not_do_is_named(tmp_path: Path, raw: bytes, words: str):
    with pytest.raises(SetRefused, match=words):
        plan_text(write(tmp_path, raw), SMALL, None)


def test_a_text_that_is_not_there_or_too_large_is_named(tmp_path: Path, monkeypatch):
    with pytest.raises(SetRefused, match="cannot read the text"):
        plan_text(tmp_path / "none", SMALL, None)
    monkeypatch.setattr(text_plan, "MAX_TEXT_BYTES", 4)
    with pytest.raises(SetRefused, match="larger than 4 bytes"):
        plan_text(write(tmp_path, b"abcdefgh"), SMALL, None)
