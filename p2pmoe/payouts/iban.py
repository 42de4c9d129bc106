"""IBAN and BIC: read as people write them, checked before money follows them.

Contract: pure. An IBAN is checked for its country's length and its check digits
(remainder 1 modulo 97), a BIC for its form alone. What is returned has no spaces and
upper case.

Source: ISO 13616-1 and the lengths of its registry; ISO 7064 (mod 97-10); ISO 9362.
"""

import re

from p2pmoe.payouts.errors import PayeesBroken

__all__ = ["check_bic", "check_iban"]

_COUNTRIES_OF_LENGTH = {
    15: "NO",
    16: "BE",
    18: "DK FI FK FO GL NL SD",
    19: "MK SI",
    20: "AT BA EE KZ LT LU MN XK",
    21: "CH HR LI LV",
    22: "BG BH CR DE GB GE IE ME RS VA",
    23: "AE GI IL IQ OM SO TL",
    24: "AD CZ ES MD PK RO SA SE SK TN VG",
    25: "LY PT ST",
    26: "IS TR",
    27: "BI DJ FR GR IT MC MR SM",
    28: "AL AZ BY CY DO GT HN HU LB NI PL SV",
    29: "BR EG PS QA UA",
    30: "JO KW MU YE",
    31: "MT SC",
    32: "LC",
    33: "RU",
}
_LENGTHS = {
    country: length
    for length, countries in _COUNTRIES_OF_LENGTH.items()
    for country in countries.split()
}
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)
_BIC = re.compile(r"[A-Z0-9]{4}[A-Z]{2}[A-Z0-9]{2}([A-Z0-9]{3})?", re.ASCII)
_MAX_CHARS = 60  # with spaces


def check_iban(text: str) -> str:
    """Return an IBAN without spaces.

    Raises:
        PayeesBroken: no IBAN, an unknown country, or a typing error in it.
    """
    iban = _squeezed(text)
    if not _IBAN.fullmatch(iban):
        raise PayeesBroken(f"{text[:_MAX_CHARS]!r} is no IBAN")
    length = _LENGTHS.get(iban[:2])
    if length is None:
        raise PayeesBroken(f"{iban[:2]} has no IBAN: {iban}")
    if len(iban) != length:
        raise PayeesBroken(f"IBAN {iban} has {len(iban)} characters, not {length}")
    turned = iban[4:] + iban[:4]
    if int("".join(str(int(c, 36)) for c in turned)) % 97 != 1:
        raise PayeesBroken(f"IBAN {iban} has a typing error: its check digits differ")
    return iban


def check_bic(text: str) -> str:
    """Return a BIC in upper case.

    Raises:
        PayeesBroken: no BIC.
    """
    bic = _squeezed(text)
    if not _BIC.fullmatch(bic):
        raise PayeesBroken(f"{text[:_MAX_CHARS]!r} is no BIC")
    return bic


def _squeezed(text: str) -> str:
    return text[:_MAX_CHARS].replace(" ", "").upper()
