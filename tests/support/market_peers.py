"""A small model's manifest, and signed offers and notices, for the market's tests."""

import hashlib

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.market import ManifestNotice, Offer
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import PeerRecord, sign_record
from mobile_worker.shards.manifest import ExpertLayout, Manifest, ManifestExpert
from p2pmoe.market.deployments import sign_manifest
from relay.tokens import Role

__all__ = [
    "SELF_TEST",
    "SHARD_BYTES",
    "identity_of",
    "make_manifest",
    "notice_of",
    "offer_of",
    "record_of",
]

SELF_TEST = hashlib.sha256(b"the arithmetic of these tests").digest()
SHARD_BYTES = 300


def identity_of(name: str) -> Identity:
    """Return the identity that always belongs to this name."""
    seed = hashlib.sha256(name.encode()).digest()
    return Identity.from_seeds(seed, hashlib.sha256(seed).digest())


def record_of(
    identity: Identity, role: Role, *, self_test: bytes = SELF_TEST, sequence: int = 1
) -> PeerRecord:
    """Return a signed record."""
    record = PeerRecord(
        peer_id=identity.peer_id,
        static_key=identity.static_key,
        role=role,
        relays=(),
        direct_addresses=(),
        capabilities=0,
        self_test=self_test,
        not_after_us=1 << 62,
        sequence=sequence,
    )
    return sign_record(record, identity.sign)


def make_manifest(n_layers: int = 2, n_experts: int = 4, name: str = "m") -> Manifest:
    """Return the manifest of a model with equal shards."""
    layout = ExpertLayout(
        gate_format=0,
        up_format=0,
        down_format=0,
        n_embd=5,
        n_ff=5,
        activation=Activation(kind=ActivationKind.SWIGLU),
    )
    experts = []
    for layer in range(n_layers):
        for index in range(n_experts):
            digest = hashlib.sha256(f"{name} {layer} {index}".encode()).digest()
            ranges = tuple((100 * part, SHARD_BYTES // 3) for part in range(3))
            experts.append(
                ManifestExpert(
                    expert=ExpertId(layer, index),
                    layout=0,
                    digest=digest,
                    n_bytes=SHARD_BYTES,
                    ranges=ranges,
                )
            )
    return Manifest(
        name=name,
        architecture="test",
        n_layer=n_layers,
        n_expert=n_experts,
        n_embd=5,
        layouts=(layout,),
        experts=tuple(experts),
    )


def notice_of(
    identity: Identity, manifest: Manifest, *, sequence: int = 1
) -> ManifestNotice:
    """Return a backbone's signed notice."""
    encoded = manifest.encode()
    return ManifestNotice(
        manifest=encoded,
        signature=sign_manifest(encoded, identity.sign),
        backbone_record=record_of(identity, Role.BACKBONE, sequence=sequence).encoded,
    )


def offer_of(identity: Identity, slots: int, **changes: object) -> Offer:
    """Return a worker's offer with room for `slots` shards."""
    self_test = changes.pop("self_test", SELF_TEST)
    role = changes.pop("role", Role.WORKER)
    assert isinstance(self_test, bytes)
    assert isinstance(role, Role)
    values: dict[str, object] = {
        "record": record_of(identity, role, self_test=self_test).encoded,
        "memory_bytes": slots * SHARD_BYTES,
        "disk_bytes": 0,
        "rate_macs_s": 1,
        "up_bytes_s": 1,
        "down_bytes_s": 1,
        "device_class": 1,
        "domain": "",
        "models": (),
    }
    return Offer(**(values | changes))  # type: ignore[arg-type]
