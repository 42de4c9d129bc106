"""What can be said of an invite's token without asking anybody. Pure.

The clock is this host's; whether the signature holds, and whether the token was
revoked, the relay alone knows.
"""

import datetime as dt
from typing import Final

from p2pmoe.doctor.findings import Finding, Verdict
from relay.errors import ProtocolError
from relay.keys import short_id
from relay.tokens import Role, parse_token

__all__ = ["token"]

_SOON: Final = dt.timedelta(days=7)
_RENEW: Final = "ask the network's operator for a new invite"


def token(raw: bytes, now: dt.datetime) -> Finding:
    """Look at a network token."""
    if not raw:
        return Finding(
            check="token",
            verdict=Verdict.NOTE,
            text="none: only an open network lets this host in",
            advice="give --invite FILE if the operator handed you one",
        )
    try:
        found = parse_token(raw)
    except ProtocolError as error:
        text = str(error).lower()
        return Finding(check="token", verdict=Verdict.FAULT, text=text, advice=_RENEW)
    parts = [f"of network {short_id(found.network)}"]
    if found.role is not Role.ANY:
        parts.append(f"for a {found.role.name.lower()}")
    if found.peer_id is not None:
        parts.append(f"for peer {short_id(found.peer_id)} alone")
    text = ", ".join(parts)
    if not found.not_after_us:
        text += ", without an end"
        return Finding(check="token", verdict=Verdict.OK, text=text)
    # Days since 1970, so that no date is too far for a datetime.
    left_s = found.not_after_us / 1e6 - now.timestamp()
    if left_s <= 0:
        text += ", has ended by this host's clock"
        return Finding(check="token", verdict=Verdict.FAULT, text=text, advice=_RENEW)
    text += f", good for {left_s / 86_400:.1f} days"
    soon = left_s < _SOON.total_seconds()
    return Finding(
        check="token",
        verdict=Verdict.WARNING if soon else Verdict.OK,
        text=text,
        advice=_RENEW if soon else "",
    )
