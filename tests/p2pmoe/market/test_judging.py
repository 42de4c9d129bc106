"""Rulings by hand, and properties over random answers."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.judging import Ruling, Voice, judge
from relay.keys import PeerId

RIGHT, WRONG = b"r" * 16, b"w" * 16


def peer(n: int) -> PeerId:
    return PeerId(bytes([n]) * 32)


def voice(n: int, said: bytes, domain: str = "", *, known: bool = True) -> Voice:
    return Voice(peer=peer(n), domain=domain or f"d{n}", said=said, is_known=known)


def anyone(_voice: PeerId, _accused: PeerId) -> bool:
    return True


def test_two_domains_that_agree_pass() -> None:
    found = judge([voice(1, RIGHT), voice(2, RIGHT)], {}, anyone)
    assert found == Ruling(passed=(peer(1), peer(2)))


def test_one_domain_proves_nothing_by_itself() -> None:
    voices = [voice(1, RIGHT, "a"), voice(2, RIGHT, "a")]
    assert judge(voices, {}, anyone) == Ruling()
    assert judge(voices, {peer(9): RIGHT}, anyone).passed == (peer(1), peer(2))


def test_the_third_domain_decides_between_two() -> None:
    voices = [voice(1, RIGHT), voice(2, WRONG), voice(3, RIGHT)]
    found = judge(voices, {}, anyone)
    assert found.wrong == (peer(2),)
    assert found.passed == (peer(1), peer(3))


def test_two_that_differ_are_in_doubt_until_the_backbone_is_asked() -> None:
    voices = [voice(1, RIGHT), voice(2, WRONG)]
    assert judge(voices, {}, anyone).doubted == (peer(1), peer(2))
    found = judge(voices, {peer(9): RIGHT}, anyone)
    assert (found.wrong_here, found.passed) == ((peer(2),), (peer(1),))
    assert not found.wrong


def test_newcomers_convict_nobody_whatever_their_number() -> None:
    crowd = [voice(n, WRONG, known=False) for n in range(2, 50)]
    found = judge([voice(1, RIGHT), *crowd], {}, anyone)
    assert not found.wrong
    assert peer(1) in found.doubted
    with_backbone = judge([voice(1, RIGHT), *crowd], {peer(99): RIGHT}, anyone)
    assert len(with_backbone.wrong_here) == 48
    assert not with_backbone.wrong


def test_fifty_keys_of_one_domain_are_one_voice() -> None:
    crowd = [voice(n, WRONG, "flat") for n in range(10, 60)]
    found = judge([voice(1, RIGHT), voice(2, RIGHT), *crowd], {}, anyone)
    assert len(found.wrong) == 50


def test_a_domain_that_differs_in_itself_has_no_vote() -> None:
    voices = [
        voice(1, WRONG, "a"),
        voice(2, RIGHT, "a"),
        voice(3, WRONG, "b"),
        voice(4, RIGHT, "c"),
    ]
    found = judge(voices, {}, anyone)
    assert not found.wrong  # one voice against one


def test_nobody_convicts_who_is_better_known() -> None:
    credit = {peer(1): 30, peer(2): 30, peer(3): 150}

    def may_convict(voice: PeerId, accused: PeerId) -> bool:
        return credit[voice] >= min(200, credit[accused])

    voices = [voice(1, WRONG), voice(2, WRONG), voice(3, RIGHT)]
    found = judge(voices, {}, may_convict)
    assert found.doubted == (peer(3),)
    assert not found.wrong
    credit[peer(1)] = credit[peer(2)] = 200
    assert judge(voices, {}, may_convict).wrong == (peer(3),)


def test_where_no_two_domains_hold_it_the_backbone_ends_its_own_business() -> None:
    voices = [voice(1, WRONG, "a"), voice(2, RIGHT, "a")]
    found = judge(voices, {peer(9): RIGHT}, anyone)
    assert found == Ruling(passed=(peer(2),), wrong_here=(peer(1),))


def test_of_two_backbones_that_differ_each_vouches_and_proves_nothing() -> None:
    voices = [voice(1, WRONG, "a"), voice(2, RIGHT, "a"), voice(3, b"x" * 16, "a")]
    words = {peer(8): WRONG, peer(9): RIGHT}
    found = judge(voices, words, anyone)
    assert found == Ruling(vouched=(peer(1), peer(2)), doubted=(peer(3),))
    two = judge([voice(1, RIGHT), voice(2, RIGHT, known=False)], words, anyone)
    assert two == Ruling(vouched=(peer(1), peer(2)))
    # None at all says nothing.
    assert judge(voices, {}, anyone).doubted == (peer(1), peer(2), peer(3))


def test_a_backbone_against_two_known_domains_has_erred() -> None:
    voices = [voice(1, RIGHT), voice(2, RIGHT)]
    found = judge(voices, {peer(9): WRONG}, anyone)
    assert found == Ruling(passed=(peer(1), peer(2)), erred=(peer(9),))


def test_a_tie_is_nobodys() -> None:
    voices = [voice(1, RIGHT), voice(2, RIGHT), voice(3, WRONG), voice(4, WRONG)]
    assert len(judge(voices, {}, anyone).doubted) == 4
    found = judge(voices, {peer(9): RIGHT}, anyone)
    assert found.wrong == (peer(3), peer(4))  # by two domains; the backbone broke it


VOICES = st.lists(
    st.builds(
        voice,
        st.integers(1, 30),
        st.sampled_from([RIGHT, WRONG, b"x" * 16]),
        st.sampled_from(["a", "b", "c", "d", "e"]),
        known=st.booleans(),
    ),
    max_size=12,
    unique_by=lambda each: each.peer,
)
BACKBONES = st.dictionaries(
    st.integers(100, 102).map(peer), st.sampled_from([RIGHT, WRONG]), max_size=2
)


@given(VOICES, BACKBONES)
def test_nobody_is_two_things_and_one_voice_convicts_nobody(voices, backbones) -> None:
    found = judge(voices, backbones, anyone)
    named = [*found.passed, *found.wrong, *found.wrong_here, *found.doubted]
    named += found.vouched
    assert len(named) == len(set(named))
    assert set(named) <= {each.peer for each in voices}
    if found.wrong:
        right = {v.said for v in voices if v.peer in found.passed}
        assert len(right) == 1
        sources = {v.domain for v in voices if v.said in right and v.is_known}
        assert len(sources) >= 2  # never on a backbone's word, or with one domain


@given(VOICES, BACKBONES)
def test_the_honest_are_never_wrong_while_they_are_more(voices, backbones) -> None:
    """If every known domain and backbone says RIGHT, whoever says so is never wrong."""
    honest = [
        v
        if not v.is_known
        else Voice(peer=v.peer, domain="h" + v.domain, said=RIGHT, is_known=True)
        for v in voices
    ]
    found = judge(honest, dict.fromkeys(backbones, RIGHT), anyone)
    right = {v.peer for v in honest if v.said == RIGHT}
    assert not right & {*found.wrong, *found.wrong_here}
