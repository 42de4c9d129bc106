"""What pays: bytes on the busiest link against the trips that they save."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.prefetch.choice import (
    ChoiceQuestion,
    LayerWish,
    choose,
)
from p2pmoe.backbone.prefetch.link_rates import Source
from tests.support.backbone import peer_id

MIB = 1 << 20
SIZE = 55_296  # an expert of the pocket model in Q4_0
N_LAYERS, N_LISTED = 7, 8


def source(
    n: int = 1, *, rtt_s: float = 0.1, bytes_s: float = 100 * MIB, most: int = 64 * MIB
) -> Source:
    return Source(peer=peer_id(n), rtt_s=rtt_s, per_byte_s=1 / bytes_s, most_bytes=most)


def question(
    *sources: Source,
    chance: float = 0.9,
    size: int = SIZE,
    trip_s: float | None = None,
    room: int = 64 * MIB,
    compute_s: float = 0.0,
) -> ChoiceQuestion:
    """Seven layers that need their whole lists with this chance."""
    indices = tuple(range(N_LISTED))
    experts = [ExpertId(layer, e) for layer in range(N_LAYERS) for e in indices]
    return ChoiceQuestion(
        layers=[
            LayerWish(
                layer=layer,
                experts=indices,
                chances=[0.0] * N_LISTED + [chance],
                trip_s=sources[0].rtt_s if trip_s is None else trip_s,
            )
            for layer in range(N_LAYERS)
        ],
        sources={e: (sources[e.index % len(sources)],) for e in experts},
        sizes=dict.fromkeys(experts, size),
        room_bytes=room,
        compute_s=compute_s,
    )


def test_a_fast_link_far_away_fetches_everything_likeliest_first() -> None:
    choice = choose(question(source()))
    assert len(choice.wanted) == N_LAYERS * N_LISTED
    ranks = [wanted.expert.index for wanted in choice.wanted]
    assert ranks == sorted(ranks)
    n_bytes = N_LAYERS * N_LISTED * SIZE
    assert choice.takes_s == pytest.approx(0.1 + n_bytes / (100 * MIB))
    assert choice.saves_s == pytest.approx(0.9 * 7 * 0.1)


@pytest.mark.parametrize(
    "asked",
    [
        question(source(bytes_s=4 * MIB)),  # bytes take longer than the trips
        question(source(rtt_s=0.001)),  # trips are short
        question(source(), chance=0.05),  # lists are seldom enough
        question(source(), size=20 * SIZE),  # large experts
        question(source(), compute_s=0.1),  # a slow processor here
        question(source(), trip_s=0.0),
        question(source(), room=0),
        question(source(most=SIZE - 1)),
    ],
    ids=["slow", "near", "blind", "large", "busy", "free", "no room", "unproven"],
)
def test_what_does_not_pay_is_not_fetched(asked: ChoiceQuestion) -> None:
    assert choose(asked).wanted == ()


def test_the_office_link_is_too_near_for_weights() -> None:
    office = source(rtt_s=0.0034, bytes_s=6.1e6)
    assert choose(question(office)).wanted == ()


def test_links_carry_side_by_side() -> None:
    sources = [source(n, bytes_s=5 * MIB) for n in range(1, 5)]
    choice = choose(question(*sources))
    assert {wanted.peer for wanted in choice.wanted} == {s.peer for s in sources}
    n_bytes = N_LAYERS * N_LISTED * SIZE
    assert choice.takes_s == pytest.approx(0.1 + n_bytes / (20 * MIB))
    assert not choose(question(sources[0])).wanted, "one alone does not pay"


def test_of_two_holders_the_quicker_gives_more() -> None:
    quick, slow = source(1), source(2, bytes_s=25 * MIB)
    asked = question(quick)
    both = dict.fromkeys(asked.sources, (slow, quick))
    choice = choose(
        ChoiceQuestion(
            layers=asked.layers,
            sources=both,
            sizes=asked.sizes,
            room_bytes=asked.room_bytes,
        )
    )
    peers = [wanted.peer for wanted in choice.wanted]
    assert peers.count(quick.peer) > peers.count(slow.peer) > 0


def test_layers_are_left_out_where_there_is_no_room_for_all() -> None:
    asked = question(source(), room=4 * N_LISTED * SIZE)
    layers = [
        LayerWish(
            layer=wish.layer,
            experts=wish.experts,
            chances=[*wish.chances[:-1], 0.3 + 0.1 * wish.layer],
            trip_s=wish.trip_s,
        )
        for wish in asked.layers
    ]
    choice = choose(
        ChoiceQuestion(
            layers=layers,
            sources=asked.sources,
            sizes=asked.sizes,
            room_bytes=asked.room_bytes,
        )
    )
    assert {w.expert.layer for w in choice.wanted} == {3, 4, 5, 6}, "the surest ones"


def test_a_list_ends_before_what_nobody_can_give() -> None:
    asked = question(source())
    chances = [0.0, 0.2, 0.6, *[0.9] * (N_LISTED - 2)]
    layers = [
        LayerWish(layer=w.layer, experts=w.experts, chances=chances, trip_s=w.trip_s)
        for w in asked.layers
    ]
    sources = {e: () if e.index == 2 else own for e, own in asked.sources.items()}
    choice = choose(
        ChoiceQuestion(
            layers=layers,
            sources=sources,
            sizes=asked.sizes,
            room_bytes=asked.room_bytes,
        )
    )
    assert {wanted.expert.index for wanted in choice.wanted} == {0, 1}


def test_nothing_is_asked_of_nobody() -> None:
    empty = ChoiceQuestion(layers=(), sources={}, sizes={}, room_bytes=MIB)
    assert choose(empty).wanted == ()


LINKS = st.builds(
    source,
    st.integers(1, 5),
    rtt_s=st.floats(0.0, 1.0),
    bytes_s=st.floats(1.0, 1e10),
    most=st.integers(0, 10 * SIZE),
)


@given(
    st.lists(LINKS, min_size=1, max_size=5, unique_by=lambda s: s.peer),
    st.floats(0.0, 1.0),
    st.integers(1, 10 * SIZE),
    st.floats(0.0, 2.0),
    st.integers(0, 40 * SIZE),
)
def test_it_never_asks_for_more_than_fits_or_takes_more_than_it_saves(
    links: list[Source], chance: float, size: int, trip_s: float, room: int
) -> None:
    asked = question(*links, chance=chance, size=size, trip_s=trip_s, room=room)
    choice = choose(asked)
    assert len({wanted.expert for wanted in choice.wanted}) == len(choice.wanted)
    assert len(choice.wanted) * size <= room
    for link in links:
        n = sum(wanted.peer == link.peer for wanted in choice.wanted)
        assert n * size <= link.most_bytes
    if choice.wanted:
        assert choice.saves_s >= choice.takes_s
