"""Live replicas, counted while workers come and go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.replicas import Replicas

EXPERTS = [ExpertId(layer, index) for layer in (1, 2) for index in range(4)]
HOLDINGS = st.lists(st.sets(st.sampled_from(EXPERTS)), max_size=12)


@given(holdings=HOLDINGS, data=st.data())
def test_what_is_left_is_counted(holdings, data) -> None:
    replicas = Replicas()
    for held in holdings:
        replicas.add(held)
    stay = data.draw(st.lists(st.booleans(), min_size=len(holdings)))
    for held, stays in zip(holdings, stay, strict=False):
        if not stays:
            replicas.remove(held)
    left = [held for held, stays in zip(holdings, stay, strict=False) if stays]
    expected = Counter(expert for held in left for expert in held)
    assert dict(replicas.counts) == dict(expected)
    assert replicas.n_held == expected.total()


def test_every_change_is_a_new_version() -> None:
    replicas = Replicas()
    replicas.add([])
    assert replicas.version == 0
    replicas.add(EXPERTS[:2])
    before = replicas.version
    replicas.remove(EXPERTS[:1])
    assert replicas.version > before > 0
    assert dict(replicas.counts) == {EXPERTS[1]: 1}


def test_a_replica_that_was_never_added_is_a_fault() -> None:
    with pytest.raises(KeyError):
        Replicas().remove(EXPERTS[:1])
