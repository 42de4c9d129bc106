"""What installing a worker as a service means on this system: files, then commands.

Contract: a plan is a value; whoever has it shows it (`--dry-run`) or carries it out.
Files lie in the user's own folders, so no administrator is needed. Pure, but for
looking which service manager there is.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from p2pmoe.contributor.services.launchd import AGENT_LABEL, agent_text
from p2pmoe.contributor.services.systemd import UNIT_NAME, unit_text
from p2pmoe.contributor.services.termux import (
    SERVICE_NAME,
    finish_script,
    run_script,
)
from p2pmoe.errors import ConfigurationError

__all__ = ["Manager", "Place", "ServiceFile", "ServicePlan", "manager_of", "plan_of"]

Command = tuple[str, ...]


class Manager(StrEnum):
    """Who starts services here."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"
    TERMUX = "termux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a user's files are; prefix: Termux's own root."""

    home: Path
    uid: int
    config: Path
    prefix: Path = Path("/usr")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFile:
    """A file to be written."""

    path: Path
    text: str
    mode: int = 0o644


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """install follows the files, remove comes before they go and reload after."""

    manager: Manager
    files: tuple[ServiceFile, ...]
    install: tuple[Command, ...]
    remove: tuple[Command, ...]
    status: Command
    reload: tuple[Command, ...] = ()
    notes: tuple[str, ...] = field(default=())


def manager_of(platform: str, environment: Mapping[str, str]) -> Manager:
    """Return the service manager of this system; `platform` is sys.platform.

    Raises:
        ConfigurationError: there is none that is known.
    """
    if "TERMUX_VERSION" in environment:
        if shutil.which("sv-enable") is None:
            raise ConfigurationError(
                "termux-services is not installed",
                advice="pkg install termux-services, then open a new session",
            )
        return Manager.TERMUX
    if platform == "darwin":
        return Manager.LAUNCHD
    if shutil.which("systemctl") is not None:
        return Manager.SYSTEMD
    raise ConfigurationError(
        "neither systemd nor launchd nor termux-services is here",
        advice="have your own service manager run `p2pmoe contribute ... --yes`",
    )


def plan_of(
    manager: Manager, place: Place, command: Sequence[str], data: Path
) -> ServicePlan:
    """Return what makes `command` a service; `data` is what it may write."""
    match manager:
        case Manager.SYSTEMD:
            return _systemd(place, command, data)
        case Manager.LAUNCHD:
            return _launchd(place, command, data)
        case Manager.TERMUX:
            return _termux(place, command)


def _systemd(place: Place, command: Sequence[str], data: Path) -> ServicePlan:
    control = ("systemctl", "--user")
    unit = place.config / "systemd" / "user" / UNIT_NAME
    return ServicePlan(
        manager=Manager.SYSTEMD,
        files=(ServiceFile(path=unit, text=unit_text(command, data)),),
        install=((*control, "daemon-reload"), (*control, "enable", "--now", UNIT_NAME)),
        remove=((*control, "disable", "--now", UNIT_NAME),),
        reload=((*control, "daemon-reload"),),
        status=(*control, "is-active", UNIT_NAME),
        notes=(
            "it runs while you are logged in; from the boot on: loginctl enable-linger",
            f"its log: journalctl --user -u {UNIT_NAME}",
        ),
    )


def _launchd(place: Place, command: Sequence[str], data: Path) -> ServicePlan:
    agent = place.home / "Library" / "LaunchAgents" / f"{AGENT_LABEL}.plist"
    domain = f"gui/{place.uid}"
    return ServicePlan(
        manager=Manager.LAUNCHD,
        files=(ServiceFile(path=agent, text=agent_text(command, data)),),
        install=(("launchctl", "bootstrap", domain, str(agent)),),
        remove=(("launchctl", "bootout", f"{domain}/{AGENT_LABEL}"),),
        status=("launchctl", "print", f"{domain}/{AGENT_LABEL}"),
        notes=(
            "it runs while you are logged in",
            f"its log: {data / 'worker.log'}",
        ),
    )


def _termux(place: Place, command: Sequence[str]) -> ServicePlan:
    shell = str(place.prefix / "bin" / "sh")
    folder = place.prefix / "var" / "service" / SERVICE_NAME
    run, finish = run_script(shell, command), finish_script(shell)
    return ServicePlan(
        manager=Manager.TERMUX,
        files=(
            ServiceFile(path=folder / "run", text=run, mode=0o755),
            ServiceFile(path=folder / "finish", text=finish, mode=0o755),
        ),
        install=(("sv-enable", SERVICE_NAME),),
        remove=(("sv-disable", SERVICE_NAME), ("sv", "down", SERVICE_NAME)),
        status=("sv", "status", SERVICE_NAME),
        notes=(
            "Android may end it when memory is short; nothing is lost, it starts again",
        ),
    )
