"""The bank's payment file: valid by its schema, exact, deterministic, plain Latin."""

import importlib.util
from pathlib import Path

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.payouts.pain001 import Debtor, message_id, pack_pain001, plain_latin
from tests.support.payout_orders import IBAN, order

NS = "{urn:iso:std:iso:20022:tech:xsd:pain.001.001.09}"
DEBTOR = Debtor(name="Netz & Söhne <GmbH>", iban=IBAN, bic="COBADEFFXXX")


@pytest.fixture(scope="module")
def schema():
    # Found without importing the package, whose own code is of no use here.
    spec = importlib.util.find_spec("sepaxml")
    folder = Path(spec.submodule_search_locations[0])
    return xmlschema.XMLSchema(folder / "schemas" / "pain.001.001.09.xsd")


def pack(*orders, debtor=DEBTOR):
    return pack_pain001(
        orders, debtor, created="2026-12-01T08:00:00Z", execute_on="2026-12-02"
    )


@pytest.mark.parametrize(
    ("orders", "debtor"),
    [
        ([order(1)], DEBTOR),
        ([order(n, minor=n) for n in range(1, 4)], DEBTOR),
        ([order(1, bic="COBADEFF", minor=99_999_999_999)], DEBTOR),
        ([order(1, name="<&>\"' ]]> \u202e\U0001f600 Ελένη")], DEBTOR),
        ([order(1, currency="JPY", minor=5), order(2, currency="JPY")], DEBTOR),
        ([order(1)], Debtor(name="x" * 300, iban=IBAN)),
    ],
)
def test_the_file_is_valid_by_its_schema(schema, orders, debtor):
    raw = pack(*orders, debtor=debtor)
    schema.validate(raw.decode())
    document = schema.to_dict(raw.decode())["CstmrCdtTrfInitn"]
    (block,) = document["PmtInf"]
    assert document["GrpHdr"]["NbOfTxs"] == str(len(orders)) == block["NbOfTxs"]
    for one, made in zip(orders, block["CdtTrfTxInf"], strict=True):
        assert made["PmtId"]["EndToEndId"] == one.key
        assert made["CdtrAcct"]["Id"]["IBAN"] == one.payee.iban
        amount = made["Amt"]["InstdAmt"]
        places = 0 if one.currency == "JPY" else 2
        assert (amount["@Ccy"], amount["$"] * 10**places) == (
            one.currency,
            one.amount_minor,
        )


def test_sums_and_texts_are_exact():
    raw = pack(order(1, minor=10), order(2, minor=20)).decode()
    assert raw.count("<CtrlSum>0.30</CtrlSum>") == 2
    assert '<InstdAmt Ccy="EUR">0.10</InstdAmt>' in raw
    assert "<Nm>Netz . Sohne .GmbH.</Nm>" in raw
    assert "<Ustrd>p2pmoe payout 2026-11 " in raw
    assert "<Cd>SEPA</Cd>" in raw
    assert "SEPA" not in pack(order(1, currency="USD")).decode()


def test_the_same_orders_are_the_same_message():
    orders = [order(1), order(2)]
    assert pack(*orders) == pack(*orders)
    assert message_id(orders) != message_id(orders[:1])
    assert len(message_id(orders)) <= 35


@given(st.text(max_size=90), st.integers(1, 70))
def test_text_is_what_every_bank_takes(text, max_chars):
    plain = plain_latin(text, max_chars)
    assert 1 <= len(plain) <= max_chars
    assert plain.isascii()
    assert plain_latin(plain, max_chars) == plain
    assert not set(plain) & set('<>&"\n')


def test_letters_become_their_nearest():
    assert (
        plain_latin("Łukasz Møller-Weiß, Ævar É.", 70)
        == "Lukasz Moller-Weiss, AEvar E."
    )
