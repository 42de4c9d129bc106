"""One example of each message, and strategies that draw any."""

from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import (
    Accept,
    Audit,
    Blob,
    Booked,
    Busy,
    Canary,
    CanaryAnswer,
    Cancel,
    CodedTensor,
    Countersign,
    Demand,
    Dispatch,
    Draining,
    ExpertCall,
    File,
    Filed,
    Get,
    Grant,
    GrantRequest,
    Held,
    Hello,
    Holder,
    Lease,
    ManifestNotice,
    Message,
    Offer,
    Open,
    Opened,
    Output,
    Paid,
    Placement,
    Recompute,
    Recomputed,
    Refused,
    Release,
    Renew,
    Standby,
    Standing,
    Verdict,
    Voucher,
)
from relay.keys import PeerId

__all__ = ["EXAMPLES", "any_message"]


def _run(n: int, start: int = 0) -> bytes:
    return bytes((start + i) % 256 for i in range(n))


_EXPERTS = (ExpertId(0, 1), ExpertId(3, 127), ExpertId(65_535, 65_535))

EXAMPLES: dict[str, Message] = {
    "hello": Hello(
        versions=(1, 2),
        manifest_hash=_run(32),
        profile=1,
        self_test=_run(32, 32),
        max_rows=512,
        tab=_run(8),
        ack=False,
    ),
    "hello_ack": Hello(
        versions=(1,),
        manifest_hash=b"",
        profile=0,
        self_test=_run(32),
        max_rows=8192,
        tab=b"",
        ack=True,
    ),
    "draining": Draining(reason="lid closed"),
    "busy": Busy(request=7, queued=3, retry_ms=250),
    "cancel": Cancel(request=2**64 - 1),
    "offer": Offer(
        record=_run(200),
        memory_bytes=2 << 30,
        disk_bytes=0,
        rate_macs_s=10**10,
        up_bytes_s=6_100_000,
        down_bytes_s=11_200_000,
        device_class=1,
        domain="192.0.2.0/24",
        models=(_run(32), _run(32, 9)),
    ),
    "lease": Lease(
        lease=_run(8),
        backbone=PeerId(_run(32, 1)),
        backbone_record=_run(180),
        manifest_hash=_run(32, 2),
        experts=_EXPERTS,
        price_table=_run(50),
        price_signature=_run(64),
        expires_in_s=600,
    ),
    "renew": Renew(lease=_run(8)),
    "release": Release(lease=_run(8), experts=_EXPERTS[:1], reason="disk full"),
    "held": Held(lease=_run(8), experts=_EXPERTS),
    "manifest": ManifestNotice(
        manifest=_run(300), signature=_run(64), backbone_record=_run(180)
    ),
    "demand": Demand(
        manifest_hash=_run(32),
        counts=((ExpertId(1, 2), 40), (ExpertId(1, 5), 0)),
        at_hand=_EXPERTS[:2],
        has_disk=True,
        n_tokens=20,
    ),
    "placement": Placement(
        manifest_hash=_run(32),
        serial=12,
        price_table=_run(50),
        price_signature=_run(64),
        holders=(
            Holder(record=_run(150), device_class=0, experts=_EXPERTS),
            Holder(record=b"", device_class=3, experts=()),
        ),
    ),
    "refused": Refused(what=3, reason="the self-test digest differs"),
    "get": Get(request=1, digest=_run(32), offset=1 << 33, length=1 << 20),
    "blob": Blob(
        request=1, digest=_run(32), offset=0, total=1000, error=0, body=_run(1000)
    ),
    "grant_request": GrantRequest(
        request=5,
        worker=_run(32),
        ceiling_uc=1_000_000,
        price_table=_run(50),
        price_signature=_run(64),
    ),
    "grant": Grant(request=5, grant=_run(120), signature=_run(64), error=""),
    "voucher": Voucher(
        voucher=_run(300), worker_signature=_run(64), leaves=_run(2 * 79)
    ),
    "countersign": Countersign(
        voucher_hash=_run(32), backbone_signature=b"", error="a leaf differs"
    ),
    "file": File(
        voucher=_run(300),
        worker_signature=_run(64),
        backbone_signature=_run(64, 3),
        leaves=b"",
    ),
    "filed": Filed(voucher_hash=_run(32), status=1, reason="duplicate"),
    "dispatch": Dispatch(
        request=99,
        tab=_run(8),
        first_serving=1000,
        layer=3,
        deadline_ms=2000,
        price_epoch=4,
        nonce=_run(8, 8),
        profile=0,
        n_embd=64,
        coded=CodedTensor(codes=_run(128), scales=_run(16)),
        floats=None,
        n_rows=2,
        calls=(ExpertCall(index=5, rows=(0, 1)), ExpertCall(index=9, rows=(1,))),
    ),
    "output": Output(
        request=99, error=0, compute_us=310, n_rows_total=3, results=_run(3 * 256)
    ),
    "accept": Accept(tab=_run(8), ranges=((0, 0), (5, 900))),
    "canary": Canary(
        number=7,
        manifest_hash=_run(32),
        experts=_EXPERTS,
        profile=1,
        n_rows=2,
        within_ms=5000,
        seed=_run(32),
        rows=b"",
    ),
    "canary_answer": CanaryAnswer(
        number=7, experts=_EXPERTS[:2], hashes=_run(32), reason="paused"
    ),
    "open": Open(voucher_hash=_run(32), tab=_run(8), serving=41),
    "opened": Opened(voucher_hash=_run(32), serving=41, rows=_run(288), reason=""),
    "recompute": Recompute(
        number=9,
        manifest_hash=_run(32),
        expert=_EXPERTS[:1],
        profile=1,
        n_rows=1,
        worker=PeerId(_run(32, 4)),
        avoid=_run(64),
        rows=_run(288),
    ),
    "recomputed": Recomputed(
        number=9, out_hash=_run(16), referee=_run(32, 5), reason=""
    ),
    "audit": Audit(
        worker=PeerId(_run(32)),
        manifest_hash=_run(32),
        outcome=0,
        counts=((ExpertId(1, 2), 40),),
    ),
    "verdict": Verdict(
        worker=PeerId(_run(32)),
        backbone=PeerId(_run(32, 1)),
        voucher_hash=_run(32),
        serving=41,
        outcome=1,
        referees=_run(64),
    ),
    "standing": Standing(
        state=1,
        reason=2,
        detail="12 of 200 checks passed",
        passes=12,
        mismatches=0,
        timeouts=1,
        until_s=600,
    ),
    "paid": Paid(
        manifest_hash=_run(32),
        from_us=1,
        to_us=60_000_001,
        counts=((ExpertId(1, 2), 40),),
    ),
    "standby": Standby(paper=_run(200), signature=_run(64)),
    "booked": Booked(name=_run(32), error=""),
}

_u8 = st.integers(0, 255)
_u16 = st.integers(0, 2**16 - 1)
_u32 = st.integers(0, 2**32 - 1)
_u63 = st.integers(0, 2**63 - 1)
_u64 = st.integers(0, 2**64 - 1)
_text = st.text(max_size=40)
_lease = st.binary(min_size=8, max_size=8)
_hash = st.binary(min_size=32, max_size=32)
_signature = st.binary(min_size=64, max_size=64)
_signature_or_none = st.one_of(st.just(b""), _signature)
_record = st.binary(max_size=300)
_long = st.binary(max_size=500)
_expert = st.builds(ExpertId, _u16, _u16)
_experts = st.lists(_expert, max_size=6).map(tuple)
_counts = st.lists(st.tuples(_expert, _u32), max_size=5).map(tuple)
_hashes = st.integers(0, 3).map(lambda n: _run(16 * n))
_peers = st.integers(0, 3).map(lambda n: _run(32 * n))
_leaves = st.integers(0, 3).map(lambda n: _run(79 * n))


@st.composite
def _dispatches(draw: st.DrawFn) -> Dispatch:
    n_rows, n_embd = draw(st.integers(1, 4)), 32 * draw(st.integers(1, 3))
    n = n_rows * n_embd
    coded = CodedTensor(
        codes=draw(st.binary(min_size=n, max_size=n)),
        scales=draw(st.binary(min_size=n // 8, max_size=n // 8)),
    )
    floats = draw(st.binary(min_size=4 * n, max_size=4 * n))
    forms = draw(st.sampled_from([(coded, None), (None, floats), (coded, floats)]))
    rows = st.sets(st.integers(0, n_rows - 1), min_size=1).map(
        lambda found: tuple(sorted(found))
    )
    calls = draw(st.dictionaries(_u16, rows, min_size=1, max_size=5))
    return Dispatch(
        request=draw(_u64),
        tab=draw(_lease),
        first_serving=draw(st.integers(0, 2**32 - 6)),
        layer=draw(_u16),
        deadline_ms=draw(_u32),
        price_epoch=draw(_u32),
        nonce=draw(_lease),
        profile=draw(st.integers(0, 2)),
        n_embd=n_embd,
        coded=forms[0],
        floats=forms[1],
        n_rows=n_rows,
        calls=tuple(ExpertCall(index=i, rows=r) for i, r in calls.items()),
    )


@st.composite
def _outputs(draw: st.DrawFn) -> Output:
    error = draw(st.integers(0, 6))
    n_rows = 0 if error else draw(st.integers(1, 5))
    row_bytes = draw(st.integers(1, 40))
    size = n_rows * row_bytes
    return Output(
        request=draw(_u64),
        error=error,
        compute_us=draw(_u32),
        n_rows_total=n_rows,
        results=draw(st.binary(min_size=size, max_size=size)),
    )


_holder = st.builds(Holder, record=_record, device_class=_u8, experts=_experts)
_ranges = st.lists(_u32, min_size=2, max_size=10, unique=True).map(
    lambda numbers: tuple(
        zip(sorted(numbers)[::2], sorted(numbers)[1::2], strict=False)
    )
)
any_message: st.SearchStrategy[Message] = st.one_of(
    st.builds(
        Hello,
        versions=st.lists(_u16, min_size=1, max_size=16).map(tuple),
        manifest_hash=st.one_of(st.just(b""), _hash),
        profile=_u8,
        self_test=_hash,
        max_rows=_u32,
        tab=st.one_of(st.just(b""), _lease),
        ack=st.booleans(),
    ),
    st.builds(Draining, reason=_text),
    st.builds(Busy, request=_u64, queued=_u32, retry_ms=_u32),
    st.builds(Cancel, request=_u64),
    st.builds(
        Offer,
        record=_record,
        memory_bytes=_u63,
        disk_bytes=_u63,
        rate_macs_s=_u63,
        up_bytes_s=_u63,
        down_bytes_s=_u63,
        device_class=_u8,
        domain=st.text(max_size=20),
        models=st.lists(_hash, max_size=4).map(tuple),
    ),
    st.builds(
        Lease,
        lease=_lease,
        backbone=_hash,
        backbone_record=_record,
        manifest_hash=_hash,
        experts=_experts,
        price_table=_long,
        price_signature=_signature,
        expires_in_s=_u32,
    ),
    st.builds(Renew, lease=_lease),
    st.builds(Release, lease=_lease, experts=_experts, reason=_text),
    st.builds(Held, lease=_lease, experts=_experts),
    st.builds(
        ManifestNotice, manifest=_long, signature=_signature, backbone_record=_record
    ),
    st.builds(
        Demand,
        manifest_hash=_hash,
        counts=_counts,
        at_hand=_experts,
        has_disk=st.booleans(),
    ),
    st.builds(
        Placement,
        manifest_hash=_hash,
        serial=_u64,
        price_table=_long,
        price_signature=_signature,
        holders=st.lists(_holder, max_size=4).map(tuple),
    ),
    st.builds(Refused, what=_u8, reason=_text),
    st.builds(Get, request=_u64, digest=_hash, offset=_u63, length=_u32),
    st.builds(
        Blob,
        request=_u64,
        digest=_hash,
        offset=_u63,
        total=_u63,
        error=_u8,
        body=_long,
    ),
    st.builds(
        GrantRequest,
        request=_u64,
        worker=_hash,
        ceiling_uc=_u63,
        price_table=_long,
        price_signature=_signature,
    ),
    st.builds(
        Grant, request=_u64, grant=_long, signature=_signature_or_none, error=_text
    ),
    st.builds(Voucher, voucher=_long, worker_signature=_signature, leaves=_leaves),
    st.builds(
        Countersign,
        voucher_hash=_hash,
        backbone_signature=_signature_or_none,
        error=_text,
    ),
    st.builds(
        File,
        voucher=_long,
        worker_signature=_signature_or_none,
        backbone_signature=_signature_or_none,
        leaves=_leaves,
    ),
    st.builds(Filed, voucher_hash=_hash, status=_u8, reason=_text),
    _dispatches(),
    _outputs(),
    st.builds(
        Accept,
        tab=_lease,
        ranges=_ranges,
    ),
    st.builds(
        Canary,
        number=_u64,
        manifest_hash=_hash,
        experts=_experts,
        profile=_u8,
        n_rows=_u16,
        within_ms=_u32,
        seed=st.one_of(st.just(b""), _hash),
        rows=_long,
    ),
    st.builds(
        CanaryAnswer, number=_u64, experts=_experts, hashes=_hashes, reason=_text
    ),
    st.builds(Open, voucher_hash=_hash, tab=_lease, serving=_u32),
    st.builds(Opened, voucher_hash=_hash, serving=_u32, rows=_long, reason=_text),
    st.builds(
        Recompute,
        number=_u64,
        manifest_hash=_hash,
        expert=_experts.map(lambda found: found[:1]),
        profile=_u8,
        n_rows=_u16,
        worker=_hash,
        avoid=_peers,
        rows=_long,
    ),
    st.builds(
        Recomputed,
        number=_u64,
        out_hash=st.sampled_from([b"", bytes(16)]),
        referee=st.one_of(st.just(b""), _hash),
        reason=_text,
    ),
    st.builds(Audit, worker=_hash, manifest_hash=_hash, outcome=_u8, counts=_counts),
    st.builds(
        Verdict,
        worker=_hash,
        backbone=_hash,
        voucher_hash=_hash,
        serving=_u32,
        outcome=_u8,
        referees=_peers,
    ),
    st.builds(
        Standing,
        state=_u8,
        reason=_u8,
        detail=_text,
        passes=_u32,
        mismatches=_u32,
        timeouts=_u32,
        until_s=_u32,
    ),
    st.builds(Paid, manifest_hash=_hash, from_us=_u63, to_us=_u63, counts=_counts),
    st.builds(Standby, paper=_long, signature=_signature),
    st.builds(Booked, name=_hash, error=_text),
)
