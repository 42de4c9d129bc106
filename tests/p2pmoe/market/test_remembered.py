from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.errors import MemoryFileBroken
from p2pmoe.market.remembered import Remembered, read_remembered, write_remembered
from relay.keys import PeerId

KEYS = st.binary(min_size=32, max_size=32)


@given(st.dictionaries(KEYS, st.frozensets(KEYS)))
def test_round_trip(holdings) -> None:
    remembered = Remembered()
    for worker, digests in holdings.items():
        remembered.note_holdings(PeerId(worker), digests)
    again = Remembered.parse(remembered.encode())
    for worker, digests in holdings.items():
        assert again.holdings(PeerId(worker)) == digests
    assert again.version == 0


def test_prices_of_earlier_releases_are_passed_over() -> None:
    text = '{"version": 1, "holdings": {}, "prices": {"' + "ab" * 32 + '": [1, 100]}}'
    assert "prices" not in Remembered.parse(text).encode()


def test_the_version_counts_changes_only() -> None:
    remembered = Remembered()
    for _ in range(3):
        remembered.note_holdings(PeerId(bytes(32)), [b"d"])
    assert remembered.version == 1


def test_the_longest_unseen_is_forgotten_first() -> None:
    remembered = Remembered()
    first = PeerId((0).to_bytes(32, "big"))
    for n in range(10_000):
        remembered.note_holdings(PeerId(n.to_bytes(32, "big")), [b"d"])
    remembered.note_holdings(first, [b"d"])
    remembered.note_holdings(PeerId(b"x" * 32), [b"d"])
    assert remembered.holdings(first)
    assert not remembered.holdings(PeerId((1).to_bytes(32, "big")))


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "market.json"
    remembered = read_remembered(path)
    assert remembered.version == 0
    remembered.note_holdings(PeerId(bytes(32)), [b"d" * 32])
    write_remembered(path, remembered.encode())
    assert read_remembered(path).holdings(PeerId(bytes(32))) == {b"d" * 32}
    assert [p.name for p in tmp_path.iterdir()] == ["market.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"version":1,"holdings":{"x":[]},"prices":{}}',
        '{"version":1,"holdings":{},"attendance":{"aa":[1%s,1,1]}}' % ("0" * 400),
    ],
)
def test_any_other_text_is_broken(text: str, tmp_path: Path) -> None:
    path = tmp_path / "market.json"
    path.write_text(text)
    with pytest.raises(MemoryFileBroken, match=str(path)) as caught:
        read_remembered(path)
    assert "remove the file" in caught.value.advice


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(MemoryFileBroken, match="cannot read"):
        read_remembered(tmp_path)
