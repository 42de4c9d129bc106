"""A systemd user unit for a worker: least privilege, quiet, no hasty restarts. Pure.

It runs as its user and may write its data folder alone. After a fault it is started
again, not sooner than half a minute later (faults B15); wrong configuration (exit code
2) stays down, a drained worker (0) stays ended. Stopping drains: systemd waits a
minute.
Its nice value and weights leave the machine to whoever sits at it.

Sources: systemd.service(5), systemd.exec(5), systemd.resource-control(5).
"""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["UNIT_NAME", "unit_text"]

UNIT_NAME = "p2pmoe-worker.service"

_UNIT = """\
# By `p2pmoe service install`; `p2pmoe service uninstall` removes it.
[Unit]
Description=p2pmoe worker: serves experts of models within limits
Documentation=man:systemd.exec(5)
StartLimitIntervalSec=3600
StartLimitBurst=20

[Service]
Type=exec
ExecStart={command}
Environment=PYTHONUNBUFFERED=1
Restart=on-failure
RestartSec=30
RestartPreventExitStatus=2
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec=60
Nice=10
CPUWeight=20
IOWeight=20
OOMPolicy=stop
OOMScoreAdjust=500
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths={data}
PrivateTmp=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
UMask=0077

[Install]
WantedBy=default.target
"""


def unit_text(command: Sequence[str], data: Path) -> str:
    """Return the unit of a worker that is started by `command`."""
    return _UNIT.format(
        command=" ".join(map(_quoted, command)), data=_quoted(str(data))
    )


def _quoted(word: str) -> str:
    """Return a word as systemd reads it back: quotes, specifiers and variables."""
    plain = word.replace("%", "%%").replace("$", "$$")
    if plain and not set(plain) - _PLAIN:
        return plain
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,@+%#"
)
