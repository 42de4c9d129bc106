"""A sealed key opens with its passphrase alone, and says nothing else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.errors import IdentityError
from mobile_worker.session import sealed_key
from mobile_worker.session.identity import Identity
from mobile_worker.session.sealed_key import MAX_SEALED_BYTES, open_key, seal_key

IDENTITY = Identity.from_seeds(bytes(range(32)), bytes(range(32, 64)))
WORDS = "correct horse battery"
CHEAP = 10
SEALED = seal_key(IDENTITY, WORDS, cost=CHEAP)


def test_it_comes_back_whole() -> None:
    assert open_key(SEALED, WORDS).text() == IDENTITY.text()
    assert IDENTITY.peer_id.hex() in SEALED
    assert len(SEALED) < MAX_SEALED_BYTES


def test_nothing_of_the_key_is_in_it_and_no_two_are_alike() -> None:
    again = seal_key(IDENTITY, WORDS, cost=CHEAP)
    assert again != SEALED
    for secret in IDENTITY.text().split()[-3::2]:
        assert secret not in SEALED


def test_letters_that_look_alike_are_alike() -> None:
    sealed = seal_key(
        IDENTITY, "caf\N{LATIN SMALL LETTER E WITH ACUTE} au lait", cost=CHEAP
    )
    assert open_key(sealed, "cafe\N{COMBINING ACUTE ACCENT} au lait").text()


@pytest.mark.parametrize("words", ["", "Correct horse battery", WORDS + " "])
def test_another_passphrase_opens_nothing(words: str) -> None:
    with pytest.raises(IdentityError, match="passphrase is wrong"):
        open_key(SEALED, words)


def test_a_short_passphrase_is_refused() -> None:
    with pytest.raises(IdentityError, match="of 9 characters"):
        seal_key(IDENTITY, "123456789")


@settings(max_examples=30, deadline=None)
@given(at=st.integers(0, len(SEALED) - 2), to=st.sampled_from("0aZ \n"))
def test_a_changed_file_is_refused(at: int, to: str) -> None:
    changed = SEALED[:at] + to + SEALED[at + 1 :]
    if changed != SEALED:
        with pytest.raises(IdentityError):
            open_key(changed, WORDS)


@pytest.mark.parametrize("cost", ["00", "09", "19", "99"])
def test_a_price_beyond_reason_is_no_sealed_key(cost: str) -> None:
    with pytest.raises(IdentityError, match="no sealed key"):
        open_key(SEALED.replace(f"scrypt {CHEAP}", f"scrypt {cost}"), WORDS)


def test_the_real_price_is_at_least_64_mebibytes() -> None:
    assert 128 * 8 << sealed_key._COST >= 64 << 20
