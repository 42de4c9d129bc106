"""Two hundred devices over a real relay, of which thirty in a hundred leave.

Real messages through a real relay to the product's market; a backbone without experts
and without a disk decodes meanwhile. They leave within the minute that the market must
bear, in a quarter of it if the machine is free, half of them without a word; a machine
with too much to do may take longer. And fifty identities behind one address, which
count as one.
"""

import random
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.device_class import DeviceClass
from mobile_worker.expert_id import ExpertId
from p2pmoe.network.running import allow_many_files
from relay import accepting
from relay.keys import PeerId
from tests.support.backbone_model import POCKET, manifest_of, shards_of
from tests.support.churn_world import ChurnDevice, ChurnWorld
from tests.support.nodes import until
from tests.support.references import made_up_reference
from tests.support.scattered_checks import locally_produced, scattered_check
from tests.support.trio_test import trio_test

if TYPE_CHECKING:
    from p2pmoe.check.comparison import Produced

N_DEVICES, N_LEAVE = 200, 60
LEAVE_EVERY_S = 0.1
GIVE_UP_S = 600.0
FLOOR = 2
KINDS = (  # class, share of the devices, slots
    (DeviceClass.HUB, 0.1, 14),
    (DeviceClass.LAPTOP, 0.65, 7),
    (DeviceClass.PHONE, 0.25, 4),
)
EXPERTS = frozenset(each.expert for each in manifest_of(POCKET).experts)
REFERENCE = made_up_reference(n_prompt=12, n_greedy=12)


def devices_of(world: ChurnWorld, rng: random.Random) -> list[ChurnDevice]:
    shards, kernel = shards_of(POCKET, set(EXPERTS)), NumpyKernel()
    kinds = rng.choices(KINDS, [share for _, share, _ in KINDS], k=N_DEVICES)
    return [
        ChurnDevice(
            world,
            kernel,
            shards,
            device_class=device_class,
            n_slots=n_slots,
            domain=f"site {number}",
        )
        for number, (device_class, _, n_slots) in enumerate(kinds)
    ]


class Watch:
    """What the market's book shows, looked at twenty times a second."""

    def __init__(self, world: ChurnWorld) -> None:
        self._book = world.book
        self.fewest: Counter[int] = Counter()

    def domains(self) -> dict[ExpertId, set[str]]:
        """Return in which domains each expert is live."""
        found: dict[ExpertId, set[str]] = {expert: set() for expert in EXPERTS}
        for lease in self._book.leases:
            for expert in lease.live:
                found[expert].add(self._book.roster.workers[lease.worker].device.domain)
        return found

    def fewest_domains(self) -> int:
        return min(len(domains) for domains in self.domains().values())

    def has_parted_with(self, peer: PeerId) -> bool:
        """Whether the market counts nothing of this worker any more."""
        return not any(lease.live for lease in self._book.leases.of_worker(peer))

    async def run(self) -> None:
        while True:
            self.fewest[self.fewest_domains()] += 1
            await trio.sleep(0.05)

    def is_settled(self) -> bool:
        """Whether nothing lacks a floor, and all that is leased is held."""
        states = self._book.assignment.states.values()
        held = sum(len(lease.live) for lease in self._book.leases)
        leased = sum(len(lease.experts) for lease in self._book.leases)
        return (
            held == leased
            and len(states) == len(EXPERTS)
            and self.fewest_domains() > FLOOR
            and not any(state.is_below_floor for state in states)
        )


async def leave_in_time(devices: list[ChurnDevice], watch: Watch) -> None:
    """Have so many leave one after the other, every second one draining first.

    The next goes after a tenth of a second, as soon as no expert is at its floor: on
    a machine with too much to do, time passes more slowly for those who leave too.
    """
    with trio.fail_after(GIVE_UP_S):
        async with trio.open_nursery() as nursery:
            for number, device in enumerate(devices):
                leave = partial(device.leave, drains=number % 2 == 0)
                await trio.sleep(LEAVE_EVERY_S)
                await until(lambda: watch.fewest_domains() > FLOOR, within_s=20)
                nursery.start_soon(leave)
                peer = device.identity.peer_id
                await until(partial(watch.has_parted_with, peer), within_s=20)


@pytest.mark.slow
def test_floors_hold_and_no_token_is_lost_while_many_leave(tmp_path: Path) -> None:
    allow_many_files()
    rng = random.Random(9)
    runs: list[Produced] = []

    @trio_test
    async def main() -> None:
        world = ChurnWorld(manifest_of(POCKET), tmp_path)
        watch = Watch(world)
        devices = devices_of(world, rng)
        async with world.services(), trio.open_nursery() as nursery:
            check = scattered_check(world, POCKET, Profile.R16)
            async with check as backbone:
                for device in devices:
                    await nursery.start(device.live)
                await until(watch.is_settled, within_s=60)
                await backbone.cover(120)
                joined = sum(len(device.fetched) for device in devices)
                nursery.start_soon(watch.run)
                going = rng.sample(devices, N_LEAVE)
                async with trio.open_nursery() as leavers:
                    leavers.start_soon(leave_in_time, going, watch)
                    while leavers.child_tasks:
                        run = await backbone.produce(REFERENCE)
                        runs.append(run.produced)
                await until(watch.is_settled, within_s=20)
                runs.append((await backbone.produce(REFERENCE)).produced)
            nursery.cancel_scope.cancel()
        assert min(watch.fewest) >= FLOOR
        refetched = sum(len(device.fetched) for device in devices) - joined
        assert refetched <= 2 * sum(len(device.fetched) for device in going)
        for device in devices:  # nothing is taken away and given back
            assert len(set(device.fetched)) == len(device.fetched)

    main()
    assert len(runs) >= 2
    alone = locally_produced(POCKET, REFERENCE, Profile.R16)
    assert {run.greedy for run in runs} == {alone.greedy}
    assert {run.logits.tobytes() for run in runs} == {alone.logits.tobytes()}


@pytest.mark.slow
def test_b34_fifty_identities_behind_one_address_are_one_domain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All come from loopback: a relay that takes it for an address sees one prefix."""
    monkeypatch.setattr(accepting, "network_prefix", lambda _: "203.0.113.0/24")

    @trio_test
    async def main() -> None:
        world = ChurnWorld(manifest_of(POCKET), tmp_path)
        devices = devices_of(world, random.Random(1))[:50]
        async with world.services(), trio.open_nursery() as nursery:
            async with scattered_check(world, POCKET, Profile.R16):
                for device in devices:
                    await nursery.start(device.live)
                book = world.book
                workers, states = book.roster.workers, book.assignment.states

                def domains() -> list[str]:
                    return [each.device.domain for each in workers.values()]

                # A domain is the declared one until the relay's word on it has come.
                seen = ["net 203.0.113.0/24"] * len(devices)
                await until(lambda: domains() == seen, within_s=60)
                await until(lambda: any(lease.live for lease in book.leases))
                most = max(state.coverage.permille for state in states.values())
            nursery.cancel_scope.cancel()
        assert most == 1000

    main()
