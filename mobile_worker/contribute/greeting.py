"""Whether a backbone that says HELLO is served; a function of values.

A worker serves those that a lease names, with the model that the lease names, if both
speak the same version and compute the same. Everyone else hears why not.
"""

from ledger.tally import TabTerms
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.messages import PROTOCOL_VERSION, Hello
from mobile_worker.serve.admission import MAX_DISPATCH_ROWS
from relay.keys import PeerId

__all__ = ["hello_ack", "hello_again", "problem_of"]


def problem_of(
    peer: PeerId, hello: Hello, leases: LeaseBook, self_test: bytes
) -> str | None:
    """Return why this backbone is not served, or None."""
    if PROTOCOL_VERSION not in hello.versions:
        return f"no common version, this worker speaks {PROTOCOL_VERSION}"
    if hello.profile not in set(Profile):
        return f"unknown profile {hello.profile}"
    if hello.self_test != self_test:
        return "the arithmetic differs"
    if not leases.holds_for(peer, hello.manifest_hash):
        return "no lease for this model"
    return None


def hello_ack(hello: Hello, self_test: bytes, tab: bytes) -> Hello:
    """Return the answer to a backbone that is served, with the tab to serve on."""
    return Hello(
        versions=(PROTOCOL_VERSION,),
        manifest_hash=hello.manifest_hash,
        profile=hello.profile,
        self_test=self_test,
        max_rows=MAX_DISPATCH_ROWS,
        tab=tab,
        ack=True,
    )


def hello_again(terms: TabTerms, self_test: bytes) -> Hello:
    """Return what a backbone hears from a worker that rested: its tab goes on."""
    return Hello(
        versions=(PROTOCOL_VERSION,),
        manifest_hash=terms.manifest_hash,
        profile=terms.profile,
        self_test=self_test,
        max_rows=MAX_DISPATCH_ROWS,
        tab=terms.tab,
        ack=False,
    )
