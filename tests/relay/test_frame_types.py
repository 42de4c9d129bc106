"""The closed sets of the protocol, as numbers that never change."""

from relay.frame_types import (
    FrameClass,
    FrameType,
    GoneReason,
    NackReason,
    PresenceState,
    StatusCode,
)


def numbers(enumeration) -> dict[str, int]:
    return {member.name: member.value for member in enumeration}


def test_frame_types() -> None:
    assert numbers(FrameType) == {
        "PING": 0x01,
        "PONG": 0x02,
        "STATUS": 0x03,
        "RESTARTING": 0x04,
        "LIMITS": 0x05,
        "SEND": 0x10,
        "RECV": 0x11,
        "NACK": 0x12,
        "GONE": 0x13,
        "WATCH": 0x14,
        "PRESENCE": 0x15,
        "CHALLENGE": 0x20,
        "AUTH": 0x21,
        "WELCOME": 0x22,
        "DENY": 0x23,
        "SEEN_FROM": 0x96,
    }


def test_classes_reasons_and_states() -> None:
    assert numbers(FrameClass) == {"CONTROL": 0, "INTERACTIVE": 1, "BULK": 2}
    assert numbers(NackReason) == {
        "NOT_HERE": 1,
        "GONE": 2,
        "QUEUE_FULL": 3,
        "EXPIRED": 4,
        "TOO_LARGE": 5,
        "NOT_ALLOWED": 6,
        "RATE": 7,
    }
    assert numbers(StatusCode) == {
        "OK": 0,
        "DUPLICATE_ID": 1,
        "RATE_LIMITED": 2,
        "SLOW": 3,
        "DRAINING": 4,
        "LEASE_ENDING": 5,
        "NEW_MAP": 6,
    }
    assert numbers(PresenceState) == {"ABSENT": 0, "HERE": 1, "SLOW": 2}
    assert numbers(GoneReason) == {
        "DISCONNECTED": 1,
        "SILENT": 2,
        "SLOW": 3,
        "REFUSED": 4,
    }
