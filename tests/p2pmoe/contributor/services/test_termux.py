"""The scripts of termux-services: quoted, awake, not hasty."""

from p2pmoe.contributor.services.termux import finish_script, run_script


def test_it_is_run_awake_with_its_words_as_they_are() -> None:
    script = run_script("/data/usr/bin/sh", ("python", "-m", "p2pmoe", "a b", "$X"))
    lines = script.splitlines()
    assert lines[0] == "#!/data/usr/bin/sh"
    assert "termux-wake-lock" in lines
    assert lines[-1] == "exec python -m p2pmoe 'a b' '$X'"


def test_it_is_started_again_after_half_a_minute() -> None:
    assert "sleep 30" in finish_script("/bin/sh").splitlines()
