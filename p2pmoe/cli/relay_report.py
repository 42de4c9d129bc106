"""What `p2pmoe relay` tells people and programs once all is up."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p2pmoe.network.operator import OperatorConfig, Started

__all__ = ["tell"]


def tell(
    started: "Started", *, config: "OperatorConfig", ready_file: Path | None
) -> None:
    """Say on stderr what is up and what comes next; write the ready file."""
    from p2pmoe.network.running import write_ready_file

    host, port = started.relay.addresses[0]
    lines = [
        f"relay {started.endpoint} listens on {host}:{port}",
        *_status_page(started, config),
        *_joining(started, config),
    ]
    print("\n".join(lines), file=sys.stderr, flush=True)
    report = {
        "listen": [host, port],
        "relay_id": started.relay.relay_id.hex(),
        "invite": str(started.invite.resolve()) if started.invite else "",
        "relay": str(started.endpoint),
        "market": (started.market or b"").hex(),
        "ledger": (started.ledger or b"").hex(),
    }
    write_ready_file(ready_file, report)


def _status_page(started: "Started", config: "OperatorConfig") -> list[str]:
    """Say where people see what goes on; a relay's own certificate no browser takes."""
    from urllib.parse import urlsplit

    from relay.tls import SelfSigned

    if config.neutral_page or config.shard is not None:
        return []
    scheme = "http" if isinstance(config.tls, SelfSigned) else "https"
    return [
        f"its status, for a browser: {scheme}://{urlsplit(started.endpoint.url).netloc}/"
    ]


def _joining(started: "Started", config: "OperatorConfig") -> list[str]:
    if started.invite is None:
        return [
            "it has no key of the network: name it in the operator's relay map,",
            f"    p2pmoe network relays add {started.endpoint}",
        ]
    return [
        f"invite for members: {started.invite} (keep it among them)",
        *(_services(started, config) if config.only else _money(config)),
        *_next_steps(started, config),
    ]


def _services(started: "Started", config: "OperatorConfig") -> list[str]:
    """Say how to start what this process does not run."""
    folder, invite = config.folder, started.invite
    market, ledger = (started.market or b"").hex(), (started.ledger or b"").hex()
    return [
        f"market {market}, to start it:",
        f"    p2pmoe market --invite {invite} --data {folder}"
        if config.market is None
        else f"    p2pmoe market --invite {invite}, where it has its folder",
        f"ledger {ledger}, to start it:",
        f"    p2pmoe ledgerd --invite {invite} --data {folder} --opening-credit 100"
        if config.ledger is None
        else f"    p2pmoe ledgerd --invite {invite}, where it has its folder",
    ]


def _money(config: "OperatorConfig") -> list[str]:
    """Say what a backbone can pay with."""
    from ledger.amounts import UC_PER_CREDIT

    if config.opening_credit_uc:
        amount = config.opening_credit_uc // UC_PER_CREDIT
        return [f"credit: each new backbone is lent {amount} to pay workers with"]
    return [
        "credit: none, so no backbone can pay a worker and none will serve it;",
        "    stop this and start it with --opening-credit 100 to lend each one some",
    ]


def _next_steps(started: "Started", config: "OperatorConfig") -> list[str]:
    lines = [
        "to serve a model:",
        f"    p2pmoe serve MODEL --invite {started.invite}",
        "to contribute a machine:",
        f"    p2pmoe contribute --invite {started.invite}",
    ]
    if config.open:
        lines += [
            "it is open, so that the URL does instead of the invite:",
            f"    p2pmoe serve MODEL --relay {started.endpoint}",
            f"    p2pmoe contribute {started.endpoint}",
        ]
    if not config.only:
        lines += [
            "to see who earned what:",
            f"    p2pmoe ledger statement --data {config.folder}",
        ]
    return lines
