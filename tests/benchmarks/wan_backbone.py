"""A backbone of the wide-area benchmark: `p2pmoe serve` with figures of its tuning.

    python -m tests.benchmarks.wan_backbone SETTING.json --ready-file FILE

The product's own service, with what has no option of the command line: the arm without
overlap, and a hot set that is chosen by hand (wan_placement) and stays as it is. Says
where it listens in the ready file; SIGTERM ends it.
"""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from p2pmoe.backbone import plan
from p2pmoe.backbone.placement import Placement
from p2pmoe.cli.serve import run_to_the_end
from p2pmoe.config import DiskPolicy, NetworkAccess, ServeConfig, Tuning
from p2pmoe.network.invite import read_invite
from p2pmoe.speculating import PrefetchPolicy, SpeculationPolicy, SpeculationWish

__all__ = ["BackboneSetting", "config_of"]

NEVER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneSetting:
    """What a backbone process is told; paths as text, None for none.

    Without an `invite` everything is computed by itself, from its memory and its disk.
    `ram_bytes` None keeps all experts. With `by_hand` the experts at hand are the most
    used ones, whatever placement the product would choose; without `hedge` no call is
    sent twice. With `even_load` a plan weighs workers by what they were sent alone, so
    that one that stalls is asked as often as others.
    """

    model: str
    data: str
    invite: str | None = None
    ram_bytes: int | None = None
    ahead_bytes: int | None = None  # of it, for weights fetched before a pass
    speculate: str = "off"
    draft_tokens: int = 16
    prefetch: str = "off"
    profile: str = "r16"
    overlap: bool = True
    by_hand: bool = True
    hedge: bool = True
    even_load: bool = False
    batch: int = 16
    n_lanes: int = 2
    chunk_tokens: int = 64
    prefill_chunks: int = 3

    def write(self, path: Path) -> None:
        """Write it where the process reads it."""
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def config_of(setting: BackboneSetting, ready_file: Path) -> ServeConfig:
    """Return what the service is told."""
    access = None
    if setting.invite is not None:
        member = read_invite(Path(setting.invite))
        access = NetworkAccess(
            endpoint=member.relays[0], token=member.token, network=member.network
        )
    return ServeConfig(
        model=Path(setting.model),
        data=Path(setting.data),
        access=access,
        ram_bytes=setting.ram_bytes,
        disk=DiskPolicy.FALLBACK if access is None else DiskPolicy.OFF,
        profile=setting.profile,
        listen="127.0.0.1:0",
        ready_file=ready_file,
        speculation=SpeculationWish(
            policy=SpeculationPolicy(setting.speculate),
            draft_tokens=setting.draft_tokens,
            prefetch=PrefetchPolicy(setting.prefetch),
        ),
        tuning=Tuning(
            n_lanes=setting.n_lanes,
            max_batch=setting.batch,
            overlap=setting.overlap,
            hedging=setting.hedge,
            ahead_bytes=setting.ahead_bytes,
            prefill_chunk_tokens=setting.chunk_tokens,
            prefill_chunks=setting.prefill_chunks,
            rebalance_interval_s=NEVER_S,
        ),
    )


def main(words: list[str]) -> None:
    """Serve until a signal."""
    path, _, ready_file = words
    setting = BackboneSetting(**json.loads(Path(path).read_text(encoding="utf-8")))
    if setting.even_load:
        plan.NEARLY = NEVER_S
    if setting.by_hand:
        Placement.settle = lambda *_: None  # type: ignore[method-assign]
    run_to_the_end(config_of(setting, Path(ready_file)))


if __name__ == "__main__":
    main(sys.argv[1:])
