"""Grants and price tables from outside: the signer and every field count."""

import pytest

from ledger.errors import FormatRefused, GrantRefused, LedgerError, SignatureRefused
from ledger.grant import sign_grant
from ledger.prices import sign_price_table
from mobile_worker.servings.grants import GrantReader
from tests.support.money import MANIFEST, Money


@pytest.fixture
def money() -> Money:
    return Money()


@pytest.fixture
def reader(money: Money) -> GrantReader:
    return GrantReader(
        network=money.network,
        worker=money.worker.peer_id,
        ledger=money.ledger.peer_id,
        market=money.market.peer_id,
    )


def test_a_grant_waits_for_its_prices(money: Money, reader: GrantReader) -> None:
    table = money.prices()
    raw, signature = money.signed_grant(money.grant(table))
    backbone = money.backbone.peer_id
    assert reader.read(raw, signature, backbone, MANIFEST) is None
    assert reader.learn_prices(*money.signed_prices(table)) == table
    allowance = reader.read(raw, signature, backbone, MANIFEST)
    assert allowance is not None
    assert allowance.prices == table
    assert allowance.grant.ceiling_uc == 10**9


@pytest.mark.parametrize("what", ["network", "worker", "backbone", "manifest_hash"])
def test_b39_a_grant_for_something_else_is_refused(
    money: Money, reader: GrantReader, what: str
) -> None:
    reader.learn_prices(*money.signed_prices(money.prices()))
    grant = money.grant(money.prices(), **{what: b"?" * 32})
    with pytest.raises(GrantRefused, match="another"):
        reader.read(*money.signed_grant(grant), money.backbone.peer_id, MANIFEST)


def test_b39_only_the_ledgers_signature_over_these_bytes_counts(
    money: Money, reader: GrantReader
) -> None:
    reader.learn_prices(*money.signed_prices(money.prices()))
    raw, signature = money.signed_grant(money.grant(money.prices()))
    flipped = raw[:-1] + bytes([raw[-1] ^ 1])
    for bad_raw, bad_signature in (
        (raw, bytes(64)),
        (raw, b""),
        (flipped, signature),
        (raw, sign_grant(raw, money.market.sign)),
        (raw, money.ledger.sign(raw)),
    ):
        with pytest.raises(SignatureRefused):
            reader.read(bad_raw, bad_signature, money.backbone.peer_id, MANIFEST)
    with pytest.raises(LedgerError):
        reader.read(b"", signature, money.backbone.peer_id, MANIFEST)


def test_b39_prices_are_the_markets_and_this_networks(
    money: Money, reader: GrantReader
) -> None:
    raw, _ = money.signed_prices(money.prices())
    with pytest.raises(SignatureRefused):
        reader.learn_prices(raw, bytes(64))
    other = Money(market=money.market)
    with pytest.raises(GrantRefused, match="network"):
        reader.learn_prices(*other.signed_prices(other.prices()))
    with pytest.raises(FormatRefused):
        reader.learn_prices(b"??", sign_price_table(b"??", money.market.sign))


def test_a_grant_whose_prices_are_another_models_is_refused(
    money: Money, reader: GrantReader
) -> None:
    other = Money(
        network=money.network, market=money.market, manifest_hash=b"n" * 32
    ).prices()
    reader.learn_prices(*money.signed_prices(other))
    raw, signature = money.signed_grant(money.grant(other))
    with pytest.raises(GrantRefused, match="prices"):
        reader.read(raw, signature, money.backbone.peer_id, MANIFEST)


def test_only_the_last_tables_are_remembered(money: Money, reader: GrantReader) -> None:
    for epoch in range(70):
        reader.learn_prices(*money.signed_prices(money.prices(epoch=epoch)))
    older, old, new = (
        money.signed_grant(money.grant(money.prices(epoch=epoch)))
        for epoch in (66, 67, 69)
    )
    assert reader.read(*older, money.backbone.peer_id, MANIFEST) is None
    with pytest.raises(GrantRefused, match="of the past"):
        reader.read(*old, money.backbone.peer_id, MANIFEST)
    assert reader.read(*new, money.backbone.peer_id, MANIFEST) is not None


def test_no_new_grant_counts_under_prices_of_the_past(
    money: Money, reader: GrantReader
) -> None:
    cheap, dear = money.prices(epoch=1), money.prices(epoch=2)
    raw, signature = money.signed_grant(money.grant(cheap))
    reader.learn_prices(*money.signed_prices(cheap))
    assert reader.read(raw, signature, money.backbone.peer_id, MANIFEST) is not None
    reader.learn_prices(*money.signed_prices(dear))
    with pytest.raises(GrantRefused, match="of the past"):
        reader.read(raw, signature, money.backbone.peer_id, MANIFEST)
    # The market has lost its memory and counts anew: what it names last counts.
    reader.learn_prices(*money.signed_prices(cheap))
    assert reader.read(raw, signature, money.backbone.peer_id, MANIFEST) is not None
