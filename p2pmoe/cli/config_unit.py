"""A systemd unit for `serve`: least privilege, secrets by credentials, clean ends.

The unit runs as a user of its own without a home, may write its state folder alone, and
takes its options from /etc/p2pmoe/config.toml. A key for the API and an invite are
handed over as credentials, so that they are in no argument and no variable. `serve`
drains at SIGTERM; after a fault it is started again, at most five times in ten minutes.
"""

import sys

__all__ = ["serve_unit"]

_UNIT = """\
# /etc/systemd/system/p2pmoe-serve.service, by `p2pmoe config unit`
[Unit]
Description=p2pmoe backbone: an OpenAI-compatible API on experts of other machines
Documentation=man:systemd.exec(5)
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=5

[Service]
Type=exec
ExecStart={python} -m p2pmoe serve --data %S/p2pmoe-serve
Environment=P2PMOE_CONFIG=/etc/p2pmoe/config.toml PYTHONUNBUFFERED=1
# Lines to be uncommented with the files that they name:
#LoadCredential=api-key:/etc/p2pmoe/api-key
#Environment=P2PMOE_SERVE_API_KEY_FILE=%d/api-key
#LoadCredential=invite:/etc/p2pmoe/invite.json
#Environment=P2PMOE_SERVE_INVITE=%d/invite
#ReadOnlyPaths=/srv/models
DynamicUser=yes
StateDirectory=p2pmoe-serve
StateDirectoryMode=0700
KillSignal=SIGTERM
TimeoutStopSec=30
Restart=on-failure
RestartSec=5
# A fault of memory ends this service, not its neighbours. Give --ram somewhat less.
#MemoryMax=12G
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
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077

[Install]
WantedBy=multi-user.target
"""


def serve_unit(python: str = sys.executable) -> str:
    """Return the unit's text; `python` is the interpreter that has p2pmoe."""
    return _UNIT.format(python=python.replace("%", "%%"))
