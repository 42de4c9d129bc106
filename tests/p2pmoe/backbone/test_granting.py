"""Grant requests, and which answers are believed."""

from mobile_worker import messages
from p2pmoe.backbone.granting import GrantDesk, GrantSizes
from relay.keys import PeerId
from tests.support.vouchers import GRANT, MONEY, PRICES

LEDGER = PeerId(MONEY.ledger.peer_id)
WORKER, BACKBONE = PeerId(GRANT.worker), GRANT.backbone


def test_each_request_has_a_number_and_the_present_prices():
    sent = []
    desk = GrantDesk(lambda peer, message: sent.append((peer, message)), LEDGER)
    desk.prices = MONEY.signed_prices(PRICES)
    numbers = [desk.ask(WORKER, ceiling_uc) for ceiling_uc in (0, 7)]
    assert [message.request for _, message in sent] == numbers
    assert numbers[0] != numbers[1]
    assert [message.ceiling_uc for _, message in sent] == [1, 7]
    assert {peer for peer, _ in sent} == {LEDGER}
    assert sent[0][1].price_table == PRICES.pack()


def test_only_what_the_ledger_signed_for_this_pair_is_a_grant():
    desk = GrantDesk(lambda *_: None, LEDGER)
    raw, signature = MONEY.signed_grant(GRANT)
    good = messages.Grant(request=1, grant=raw, signature=signature, error="")
    assert desk.verified(good, WORKER, BACKBONE) == GRANT
    assert desk.verified(good, PeerId(BACKBONE), BACKBONE) is None
    assert desk.verified(good, WORKER, WORKER) is None
    forged = messages.Grant(request=1, grant=raw, signature=bytes(64), error="")
    assert desk.verified(forged, WORKER, BACKBONE) is None


def test_a_grant_covers_what_use_asks_for():
    sizes = GrantSizes()

    def granted(epoch):
        rows = sizes.next_rows(WORKER, epoch)
        sizes.granted(WORKER)
        return rows

    assert [granted(1) for _ in range(4)] == [4_000, 8_000, 16_000, 20_000]
    assert [granted(2), granted(3), granted(4), granted(5)] == [
        *(10_000, 5_000, 4_000, 4_000),
    ]


def test_a_refused_request_is_asked_again_for_no_more():
    sizes = GrantSizes()
    assert [sizes.next_rows(WORKER, 1) for _ in range(3)] == [4_000] * 3
    sizes.granted(WORKER)
    sizes.granted(WORKER)
    assert [sizes.next_rows(WORKER, 1) for _ in range(3)] == [8_000] * 3
