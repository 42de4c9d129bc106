"""Who is served."""

from dataclasses import replace

from ledger.tally import TabTerms
from mobile_worker.contribute.greeting import hello_ack, hello_again, problem_of
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.messages import PROTOCOL_VERSION, Hello
from relay.keys import PeerId
from tests.support.lease_messages import BACKBONE, MODEL, OTHER, lease

SELF_TEST = b"s" * 32
HELLO = Hello(
    versions=(PROTOCOL_VERSION, 9),
    manifest_hash=MODEL,
    profile=1,
    self_test=SELF_TEST,
    max_rows=100,
    tab=b"",
    ack=False,
)


def problem(hello: Hello = HELLO, peer: PeerId = BACKBONE) -> str | None:
    leases = LeaseBook()
    leases.take(lease(0), 0.0)
    return problem_of(peer, hello, leases, SELF_TEST)


def test_only_with_lease_model_version_profile_and_arithmetic() -> None:
    assert problem() is None
    assert "lease" in (problem(peer=OTHER) or "")
    assert "lease" in (problem(replace(HELLO, manifest_hash=b"n" * 32)) or "")
    assert "version" in (problem(replace(HELLO, versions=(9,))) or "")
    assert "profile" in (problem(replace(HELLO, profile=77)) or "")
    assert "arithmetic" in (problem(replace(HELLO, self_test=b"t" * 32)) or "")


def test_the_answer_carries_the_tab() -> None:
    answer = hello_ack(HELLO, SELF_TEST, b"tab-tab-")
    assert (answer.ack, answer.tab, answer.profile) == (True, b"tab-tab-", 1)
    assert answer.self_test == SELF_TEST


def test_who_rested_goes_on_with_the_tab() -> None:
    terms = TabTerms(
        network=bytes(32),
        manifest_hash=MODEL,
        profile=1,
        worker=b"w" * 32,
        backbone=BACKBONE,
        tab=b"tab-tab-",
    )
    hello = hello_again(terms, SELF_TEST)
    assert (hello.ack, hello.tab, hello.manifest_hash) == (False, b"tab-tab-", MODEL)
    assert problem(hello) is None
