"""What the demo must draw, and facts of one that went well, to change one thing in."""

from p2pmoe.demo.facts import DemoFacts

__all__ = ["DEMO_TOKENS_SHA256", "GOOD_FACTS"]

# The ids of 64 tokens from the demo's prompt and seed; any kernel, placement, batch,
# device or failover gives these.
DEMO_TOKENS_SHA256 = "29ac53c286f0ab1aa76c1aa86356f94b885efef9e5acfec879fc09fdcb3813a0"

GOOD_FACTS = DemoFacts(
    prompt="Once",
    text=" upon",
    tokens=(1, 2),
    single_process_tokens=(1, 2),
    kernel="native/avx2",
    killed_worker="edge-1",
    failovers=1,
    round_trips_per_token=3.25,
    calls={"ram": 40, "disk": 0, "hub": 20, "edge": 40},
    bytes_up=10,
    bytes_down=20,
    tokens_per_s=8.0,
    servings_accepted=10,
    servings_unsigned_at_kill=2,
    receipts_count=8,
    receipts_verified=8,
    payouts={"aa": 80},
    names={"aa": "edge-1"},
    ledger_verified=True,
    worker_memory={"edge-1": 100 << 20},
    seconds=1.0,
)
