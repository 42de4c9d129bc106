"""systemd units for `serve` and `relay`: least privilege, clean ends, no secrets.

Each unit runs as a user of its own without a home, may write its state folder alone,
and takes its options from /etc/p2pmoe/config.toml. What is secret is handed over as
credentials or lies in the state folder, so that it is in no argument and no variable.
Both drain at SIGTERM; after a fault they are started again, at most five times in ten
minutes. The relay reads its files anew at `systemctl reload`, and has one privilege: to
listen on ports below 1024.
"""

import sys

__all__ = ["SERVICES", "unit_of"]

SERVICES = ("serve", "relay")

# What both services have in common, after what is their own.
_COMMON = """\
DynamicUser=yes
StateDirectory=p2pmoe-{service}
StateDirectoryMode=0700
KillSignal=SIGTERM
TimeoutStopSec=30
Restart=on-failure
RestartSec=5
MemorySwapMax=0
OOMPolicy=stop
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""

_HEAD = """\
# /etc/systemd/system/p2pmoe-{service}.service, by `p2pmoe config unit {service}`
[Unit]
Description=p2pmoe {what}
Documentation=man:systemd.exec(5)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=exec
ExecStart={python} -m p2pmoe {service} --data %S/p2pmoe-{service}
Environment=P2PMOE_CONFIG=/etc/p2pmoe/config.toml PYTHONUNBUFFERED=1
"""

_SERVE = """\
# Lines to be uncommented with the files that they name:
#LoadCredential=api-key:/etc/p2pmoe/api-key
#Environment=P2PMOE_SERVE_API_KEY_FILE=%d/api-key
#LoadCredential=invite:/etc/p2pmoe/invite.json
#Environment=P2PMOE_SERVE_INVITE=%d/invite
#ReadOnlyPaths=/srv/models
# A fault of memory ends this service, not its neighbours. Give --ram somewhat less.
#MemoryMax=12G
CapabilityBoundingSet=
"""

_RELAY = """\
# Limits, revocations, the relay map and the certificate are read anew.
ExecReload=/bin/kill -HUP $MAINPID
# To listen on port 443 (80 too with --acme); behind a front both lines can go.
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
# Whose group may read the files of --cert and --key:
#SupplementaryGroups=ssl-cert
# Queues take at most a quarter of it, or of the host's memory.
#MemoryMax=1G
ProtectProc=invisible
RemoveIPC=yes
"""

_OWN = {
    "serve": (
        "backbone: an OpenAI-compatible API on experts of other machines",
        _SERVE,
    ),
    "relay": ("relay, with market and ledger", _RELAY),
}


def unit_of(service: str, python: str = sys.executable) -> str:
    """Return a service's unit; `python` is the interpreter that has p2pmoe."""
    what, own = _OWN[service]
    head = _HEAD.format(service=service, what=what, python=python.replace("%", "%%"))
    return head + own + _COMMON.format(service=service)
