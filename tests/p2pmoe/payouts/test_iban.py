"""IBAN and BIC: real forms taken, typing errors found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.payouts.errors import PayeesBroken
from p2pmoe.payouts.iban import check_bic, check_iban

# Examples of the registry and of banks' pages.
GOOD = [
    "DE89 3704 0044 0532 0130 00",
    "gb82 west 1234 5698 7654 32",
    "FR14 2004 1010 0505 0001 3M02 606",
    "NO93 8601 1117 947",
    "MT84 MALT 0110 0001 2345 MTLC AST0 01S",
    "CH93 0076 2011 6238 5295 7",
    "BE68 5390 0754 7034",
    "SA03 8000 0000 6080 1016 7519",
]


@pytest.mark.parametrize("text", GOOD)
def test_an_iban_is_read_as_people_write_it(text):
    iban = check_iban(text)
    assert " " not in iban
    assert check_iban(iban) == iban == iban.upper()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is no IBAN"),
        ("DE89 3704 0044 0532 0130 01", "typing error"),
        ("DE98 3704 0044 0532 0130 00", "typing error"),
        ("DE89 3704 0044 0532 0130 0", "21 characters, not 22"),
        ("US89 3704 0044 0532 0130 00", "US has no IBAN"),
        ("DE89-3704-0044-0532-0130-00", "is no IBAN"),
        ("DE89 3704 0044 0532 0130 0\u0660", "is no IBAN"),
        ("D" * 10_000, "is no IBAN"),
    ],
)
def test_what_is_none(text, reason):
    with pytest.raises(PayeesBroken, match=reason):
        check_iban(text)


@given(st.sampled_from(GOOD), st.data())
def test_every_changed_or_swapped_digit_is_found(text, data):
    iban = check_iban(text)
    at = data.draw(st.integers(4, len(iban) - 2))
    if data.draw(st.booleans()):
        others = "0123456789" if iban[at].isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        wrong = iban[:at] + data.draw(st.sampled_from(others)) + iban[at + 1 :]
    else:
        wrong = iban[:at] + iban[at + 1] + iban[at] + iban[at + 2 :]
    if wrong == iban:
        return
    with pytest.raises(PayeesBroken, match="typing error"):
        check_iban(wrong)


def test_a_bic_has_8_or_11_characters():
    assert check_bic("cobadeff xxx") == "COBADEFFXXX"
    assert check_bic("COBADEFF") == "COBADEFF"
    for text in ("", "COBADEF", "COBADEFFX", "COBA1EFF", "COBADEFF\u0130XX"):
        with pytest.raises(PayeesBroken, match="is no BIC"):
            check_bic(text)
