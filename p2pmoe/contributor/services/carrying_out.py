"""Carry out a plan for a service: write its files, run its commands, undo both.

A command that fails is one line with what it said. What a plan wrote is removed again
where its commands fail, so that a service is there whole or not at all.
"""

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from p2pmoe.contributor.services.plan import ServicePlan
from p2pmoe.errors import ConfigurationError

__all__ = ["Ran", "Run", "install", "is_installed", "is_running", "remove", "run_here"]

_WITHIN_S = 90.0  # stopping a worker takes up to a minute
_SHOWN = 200


class Ran(tuple[int, str]):
    """How a command ended: its exit code and what it said."""

    __slots__ = ()

    @property
    def code(self) -> int:
        """0 if all went well."""
        return self[0]

    @property
    def said(self) -> str:
        """The last line that it wrote."""
        lines = self[1].strip().splitlines()
        return lines[-1][:_SHOWN] if lines else ""


Run = Callable[[Sequence[str]], Ran]


def run_here(command: Sequence[str]) -> Ran:
    """Run one command to its end."""
    try:
        done = subprocess.run(  # noqa: S603 - service managers, no shell
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Ran((127, str(error)))
    return Ran((done.returncode, done.stdout))


def install(plan: ServicePlan, run: Run = run_here) -> None:
    """Write the files of a plan and start the service.

    Raises:
        ConfigurationError: a file cannot be written or a command failed; nothing stays.
    """
    for file in plan.files:
        try:
            file.path.parent.mkdir(parents=True, exist_ok=True)
            file.path.write_text(file.text, encoding="utf-8")
            file.path.chmod(file.mode)
        except OSError as error:
            with suppress(ConfigurationError):
                _take_away(plan)
            raise ConfigurationError(f"{file.path}: {_why(error)}") from error
    for command in plan.install:
        ran = run(command)
        if ran.code:
            _take_away(plan)
            for after in plan.reload:
                run(after)
            raise _failed(command, ran)


def remove(plan: ServicePlan, run: Run = run_here) -> list[Path]:
    """Stop the service and remove its files; return those that were there.

    Raises:
        ConfigurationError: a file cannot be removed.
    """
    if not is_installed(plan):
        return []
    for command in plan.remove:
        run(command)  # one that does not run cannot be stopped, and need not be
    gone = _take_away(plan)
    for command in plan.reload:
        run(command)
    return gone


def is_installed(plan: ServicePlan) -> bool:
    """Whether a file of the plan is there."""
    return any(file.path.exists() for file in plan.files)


def is_running(plan: ServicePlan, run: Run = run_here) -> bool:
    """Whether its manager says that it runs."""
    return run(plan.status).code == 0


def _take_away(plan: ServicePlan) -> list[Path]:
    gone = []
    for file in plan.files:
        try:
            file.path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigurationError(f"{file.path}: {_why(error)}") from error
        gone.append(file.path)
    return gone


def _failed(command: Sequence[str], ran: Ran) -> ConfigurationError:
    return ConfigurationError(
        f"`{' '.join(command)}` failed with {ran.code}: {ran.said or 'no word'}",
        advice="--dry-run shows the file, for a service manager of your own",
    )


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
