"""What fits of a table into a narrow terminal, and what is said to be left out."""

import io

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.cli.fitted_columns import fit_columns, fit_words, print_fitted

NAMES = ("a", "b", "c", "d", "e")
WIDTHS = st.lists(st.integers(1, 20), min_size=5, max_size=5)


@given(WIDTHS, st.integers(0, 120), st.permutations(NAMES))
def test_columns_fit_and_go_in_their_order(widths, room, order) -> None:
    wide = dict(zip(NAMES, widths, strict=True))
    expendable = order[:3]
    shown, gap = fit_columns(wide, room, expendable)
    gone = [name for name in expendable if name not in shown]
    assert gone == expendable[: len(gone)]
    assert shown == [name for name in NAMES if name not in gone]
    taken = sum(wide[name] + gap for name in shown) - 1
    assert taken <= room or (gone == expendable and gap == 1)
    if gone:  # the last of them would not have fitted
        last = wide[gone[-1]]
        assert sum(wide[name] + 1 for name in shown) - 1 + last + 1 > room


@given(st.lists(st.text("0123456789x", min_size=1), min_size=1), st.integers(0, 50))
def test_words_are_whole(words, room) -> None:
    fitted = fit_words(" ".join(words), room)
    kept = fitted.removesuffix(" ...").split(" ")
    assert kept == words[: len(kept)]
    assert len(fitted) <= room or len(kept) == 1
    assert fitted.endswith(" ...") == (kept != words or len(" ".join(words)) > room)


def test_what_is_cut_already_is_cut_once() -> None:
    assert fit_words("9x3 8x2 ...", 11) == "9x3 8x2 ..."
    assert fit_words("9x3 8x2 ...", 10) == "9x3 ..."


def test_columns_of_nothing_are_not_missed(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "12")
    monkeypatch.setenv("NO_COLOR", "1")
    rows = [{"n": "1", "none": "0", "words": "x" * 9, "must": "2.5"}]
    out = io.StringIO()
    assert print_fitted(rows, out, expendable=("words", "none")) == ["words"]
    header, _, row = (line for line in out.getvalue().splitlines() if line)
    assert (header.split(), row.split()) == (["n", "must"], ["1", "2.5"])
