import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.standing import StandingReason
from p2pmoe.market.standing import Record
from p2pmoe.market.standing_memory import StandingMemory
from relay.keys import PeerId

A = PeerId(b"a" * 32)
KEYS = st.binary(min_size=32, max_size=32)
COUNTS = st.integers(0, 1 << 40)
RECORDS = st.builds(
    Record,
    domain=st.text(max_size=20),
    passes=COUNTS,
    vouched=COUNTS,
    mismatches=COUNTS,
    timeouts=COUNTS,
    reason=st.sampled_from(StandingReason),
    cases=st.lists(KEYS, max_size=2).map(tuple),
    accusers=st.lists(KEYS.map(PeerId), max_size=3).map(tuple),
)


@given(st.dictionaries(KEYS.map(PeerId), RECORDS, max_size=5))
def test_round_trip(records) -> None:
    memory = StandingMemory()
    known = {peer: r for peer, r in records.items() if memory.note(peer, r)}
    again = StandingMemory.parse(json.loads(json.dumps(memory.encode())))
    assert again.records == known


def test_nothing_is_not_remembered() -> None:
    memory = StandingMemory()
    assert not memory.note(A, Record(domain="home"))
    assert memory.encode() == {}


def test_no_crowd_makes_it_forget_a_convicted_key(monkeypatch) -> None:
    monkeypatch.setattr("p2pmoe.market.standing_memory._MAX_KEYS", 10)
    memory = StandingMemory()
    convicted = Record(cases=(b"1" * 32,))
    memory.note(A, convicted)
    for n in range(30):
        memory.note(PeerId(n.to_bytes(32, "big")), Record(passes=1))
    assert len(memory.records) == 11
    assert memory.records[A] == convicted


def row(**changes: object) -> list[object]:
    values: dict[str, object] = {
        "domain": "",
        "passes": 1,
        "vouched": 0,
        "mismatches": 0,
        "timeouts": 0,
        "reason": 0,
        "cases": [],
        "accusers": [],
    }
    return list((values | changes).values())


@pytest.mark.parametrize(
    "part",
    [
        [],
        None,
        {"zz": row()},
        {"00": row()},
        {"00" * 32: row()[:7]},
        {"00" * 32: {}},
        {"00" * 32: row(domain=7)},
        {"00" * 32: row(domain="x" * 500)},
        {"00" * 32: row(passes=-1)},
        {"00" * 32: row(passes=True)},
        {"00" * 32: row(passes=1 << 62)},
        {"00" * 32: row(passes="1")},
        {"00" * 32: row(reason=99)},
        {"00" * 32: row(cases="x")},
        {"00" * 32: row(cases=["00"])},
        {"00" * 32: row(accusers=[1])},
    ],
)
def test_anything_else_is_refused(part: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        StandingMemory.parse(part)
