"""Arms of one profile must give the same tokens; targets stand beside their arms."""

import pytest

from tests.benchmarks.test_wan_requests import a_run
from tests.benchmarks.wan_arms import ARMS, Arm, draftable
from tests.benchmarks.wan_speeds import Distance, Speeds, check_hashes, speed_figures
from tests.support.injector.conditions import NEAR


def arm(name: str) -> Arm:
    return next(each for each in ARMS if each.name == name)


def test_other_tokens_of_the_same_profile_are_refused() -> None:
    found = {arm("plain"): a_run(), arm("auto"): a_run(tokens=(1, 2))}
    with pytest.raises(RuntimeError, match="auto and plain"):
        check_hashes(found, "here")


def test_another_profile_may_give_other_tokens() -> None:
    check_hashes({arm("plain"): a_run(), arm("plain r8"): a_run(tokens=(1, 2))}, "")


def test_every_profile_has_an_arm_without_drafts() -> None:
    plain = {each.profile for each in ARMS if each.setting.speculate == "off"}
    assert {each.profile for each in ARMS} == plain


def test_a_speed_up_is_compared_with_its_target() -> None:
    distance = Distance(name="100 ms", link=NEAR, workloads=(draftable(1, 8),))
    speeds = Speeds()
    speeds.rounds["100 ms", "draftable", "naive"] = [a_run(decode_s=10.0)]
    speeds.rounds["100 ms", "draftable", "auto"] = [a_run(decode_s=2.0)]
    figures = speed_figures(speeds, [distance], ARMS)
    found = {each.name: each for each in figures}
    ratio = found["draftable, 100 ms: auto, over naive"]
    assert ratio.ours == 5.0
    assert ratio.target == 4.5
    assert ratio.met
    assert found["draftable, 100 ms: auto, g"].ours == 2.0
