import datetime as dt

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.network.acme.client import new_key_pem
from p2pmoe.network.acme.renewal import (
    CertificateFile,
    is_due,
    read_certificate_file,
    retry_after_s,
)
from tests.support.acme_server import issue_certificate

START = dt.datetime(2026, 11, 30, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SIGNER = ec.generate_private_key(ec.SECP256R1())


def pem(key_pem: bytes, *, names=("a.b", "c.d")) -> bytes:
    key = load_pem_private_key(key_pem, password=None)
    return issue_certificate(SIGNER, key.public_key(), [*names], START, 90 * DAY)


def test_a_file_says_names_and_times_if_its_key_fits() -> None:
    key = new_key_pem()
    held = read_certificate_file(key + pem(key))
    assert held == CertificateFile(
        domains=frozenset({"a.b", "c.d"}), not_before=START, not_after=START + 90 * DAY
    )
    for broken in (b"", key, pem(key), new_key_pem() + pem(key), b"x" * 100):
        assert read_certificate_file(broken) is None


@pytest.mark.parametrize(
    ("life_days", "after_days", "lot", "due"),
    [
        (90, 59, 0.0, False),
        (90, 61, 0.0, True),
        (90, 50, 1.0, False),
        (90, 52, 1.0, True),
        (6, 3.9, 0.0, False),
        (6, 4.1, 0.0, True),
    ],
)
def test_it_is_due_after_two_thirds_of_its_life(
    life_days, after_days, lot, due: bool
) -> None:
    held = CertificateFile(
        domains=frozenset({"a.b"}),
        not_before=START,
        not_after=START + life_days * DAY,
    )
    now = START + after_days * DAY
    assert is_due(held, ("a.b",), now, lot) is due
    assert is_due(held, ("a.b", "c.d"), now, lot)
    assert is_due(None, ("a.b",), now, lot)


@given(n_failures=st.integers(1, 10**6), lot=st.floats(0, 1))
def test_a_failure_is_repeated_ever_later_but_not_too_late(n_failures, lot) -> None:
    waits = [retry_after_s(n, lot) for n in (n_failures, n_failures + 1)]
    assert 480 <= waits[0] <= waits[1] < 1.21 * 6 * 3600
