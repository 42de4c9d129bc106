"""B39: signatures that must not be taken, tried on everything that is signed.

Keys of small order under which one signature fits many messages, S + L, a signature
made for another purpose, another signer, another network, a wrong bit.
"""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import KeyRefused, LedgerError, RemoteError, SignatureRefused
from ledger.keys import verify
from ledger.voucher import SignedVoucher
from tests.support.ledger_world import Party, World
from tests.support.signed_things import SIGNED_THINGS, SignedThing

L = 2**252 + 27742317777372353535851937790883648493
P = 2**255 - 19
Y_ORDER_8 = 2707385501144840649318225287225658788936804267575313519463743609750303402022
# Every encoding of the eight points of small order, canonical or not.
SMALL_ORDER = sorted(
    {
        (y | sign << 255).to_bytes(32, "little")
        for y in (0, 1, P - 1, Y_ORDER_8, P - Y_ORDER_8, P, P + 1)
        for sign in (0, 1)
    }
)

each = pytest.mark.parametrize("thing", SIGNED_THINGS, ids=lambda thing: thing.name)


@each
def test_the_right_signature_is_taken(thing: SignedThing):
    thing.check(thing.raw, thing.sign(), thing.signer.id)


@each
def test_s_plus_l_is_refused(thing: SignedThing):
    """The same equation holds for S + L: only the bound on S refuses it."""
    signature = thing.sign()
    s = int.from_bytes(signature[32:], "little") + L
    with pytest.raises(SignatureRefused):
        thing.check(
            thing.raw, signature[:32] + s.to_bytes(32, "little"), thing.signer.id
        )


@each
@pytest.mark.parametrize("key", SMALL_ORDER, ids=bytes.hex)
def test_a_weak_signer_is_refused_whatever_it_signed(thing: SignedThing, key: bytes):
    """With R = the key and S = 0 the identity "signs" every message."""
    raw = thing.raw
    if thing.key_at is not None:
        raw = raw[: thing.key_at] + key + raw[thing.key_at + 32 :]
    for signature in (key + bytes(32), bytes(64), thing.sign()):
        with pytest.raises(KeyRefused):
            thing.check(raw, signature, key)


@each
def test_a_signature_for_another_purpose_is_refused(thing: SignedThing):
    for other in SIGNED_THINGS:
        if other.domain == thing.domain:
            continue
        for signature in (
            thing.signer.sign(other.domain + thing.raw),
            thing.signer.sign(other.domain + other.raw),
        ):
            with pytest.raises(SignatureRefused):
                thing.check(thing.raw, signature, thing.signer.id)
    with pytest.raises(SignatureRefused):  # no purpose at all
        thing.check(thing.raw, thing.signer.sign(thing.raw), thing.signer.id)


def test_no_purpose_is_the_beginning_of_another():
    domains = {thing.domain for thing in SIGNED_THINGS}
    assert all(
        domain.endswith(b"\0") and domain.count(b"\0") == 1 for domain in domains
    )
    for one, other in itertools.permutations(domains, 2):
        assert not other.startswith(one)
        assert not other.startswith(b"p2pmoe.ledger/")  # as a checkpoint's text does


@each
def test_another_signer_is_refused(thing: SignedThing):
    thief = Party("thief")
    with pytest.raises(SignatureRefused):
        thing.check(thing.raw, thief.sign(thing.domain + thing.raw), thing.signer.id)
    if thing.key_at is None:
        with pytest.raises(SignatureRefused):
            thing.check(thing.raw, thing.sign(), thief.id)


@each
@given(st.data())
def test_one_wrong_bit_is_refused(thing: SignedThing, data):
    signed = thing.raw + thing.sign()
    bit = data.draw(st.integers(0, 8 * len(signed) - 1))
    wrong = bytearray(signed)
    wrong[bit // 8] ^= 1 << bit % 8
    with pytest.raises(LedgerError):
        thing.check(bytes(wrong[:-64]), bytes(wrong[-64:]), thing.signer.id)


@each
@pytest.mark.parametrize("length", [0, 63, 65, 128])
def test_signatures_of_another_length_are_refused(thing: SignedThing, length: int):
    signature = (thing.sign() * 2)[:length]
    with pytest.raises(RemoteError):
        thing.check(thing.raw, signature, thing.signer.id)


def test_the_measured_fault_is_there_without_our_check():
    """The library itself takes the identity as a key: for every message."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = b"\x01" + bytes(31)
    for n in range(20):
        Ed25519PublicKey.from_public_bytes(key).verify(key + bytes(32), b"%d" % n)
        with pytest.raises(KeyRefused):
            verify(key, b"", b"%d" % n, key + bytes(32))


def test_what_is_signed_for_one_network_is_nothing_in_another(tmp_path):
    """The same ledger, market, worker and backbone keys serve two networks."""
    here, there = World(), World()
    there.network = Party("another network")
    there.prices = type(there.prices)(
        network=there.network.id,
        manifest_hash=there.manifest_hash,
        epoch=there.prices.epoch,
        base_uc=there.prices.base_uc,
        multipliers=there.prices.multipliers,
    )
    with here.open(tmp_path / "here") as home, there.open(tmp_path / "there") as abroad:
        tab = here.tab(home.grant(here.order()).result(60))
        foreign = there.tab(abroad.grant(there.order()).result(60))
        tab.file(home, 0, 1)
        signed, block = foreign.next(2, 3)
        refused = home.file(signed, block, tab.backbone.id).result(60)
        assert (refused.status.name, refused.reason) == ("REJECTED", "grant")
        with pytest.raises(LedgerError, match="another network"):
            home.grant(there.order()).result(60)
        stolen = SignedVoucher(
            raw=signed.raw.replace(there.network.id, here.network.id),
            worker_signature=signed.worker_signature,
            backbone_signature=signed.backbone_signature,
        )
        refused = home.file(stolen, block, tab.backbone.id).result(60)
        assert refused.reason == "signature"
