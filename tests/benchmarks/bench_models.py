"""What it costs to look at a model, and to refuse a wrong one.

Headers of terabytes are looked at by the command as a person starts it, beside the
demo's model. A wrong model is given to the real command in a child of its own, with
Python and the program loaded (the start of Python is the same for every command and is
told apart); its memory is counted from there. The baseline is the same for the model
that all wrong ones are bent from.
"""

import tempfile
from pathlib import Path

from tests.benchmarks.figures import Figure, figure
from tests.support.command_line import run as run_command
from tests.support.forked_commands import run_forked
from tests.support.header_only import write_kimi_k3, write_minimax_m3
from tests.support.wrong_models import write_good, write_wrong_models

__all__ = ["run"]

_ROUNDS = 5


def run() -> list[Figure]:
    """Measure all figures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        good = ("models", "inspect", str(write_good(folder)))
        wrong = [
            ("models", "inspect", str(each.path))
            for each in write_wrong_models(folder)
            if each.command == "inspect"
        ]
        base = run_forked([good] * _ROUNDS)
        found = run_forked(wrong)
        starts = {
            "MiniMax-M3, 207.6 GB": write_minimax_m3(folder / "m3.gguf"),
            "Kimi-K3, 1.4 TB": write_kimi_k3(folder / "k3.gguf"),
        }
        whole = {label: _seconds(str(path)) for label, path in starts.items()}
        plain = _seconds("pocket")
    figures = [
        figure(f"inspect {label}", "s", seconds, baseline=plain)
        for label, seconds in whole.items()
    ]
    seconds = [each.outcome.seconds for each in found]
    growth = [each.growth_bytes for each in found]
    usual = [each.outcome.seconds for each in base]
    least = min(each.growth_bytes for each in base)
    beyond = max(growth) - least
    return [
        *figures,
        figure("refuse a wrong model", "s", seconds, baseline=usual),
        figure("refuse a wrong model, slowest", "s", [max(seconds)], at_most=1.0),
        figure("memory beyond a good model's", "MB", [beyond / 1e6], at_most=50),
    ]


def _seconds(path: str) -> list[float]:
    return [run_command("models", "inspect", path).seconds for _ in range(_ROUNDS)]
