"""Which line a person sees for which error."""

import errno

import pytest
import typer

from p2pmoe.cli.complaints import complaint_of
from p2pmoe.cli.main import build_app
from p2pmoe.errors import P2pmoeError


class Advised(P2pmoeError):
    advice = "do this"
    exit_code = 3


def test_message_and_advice_stand_on_one_line():
    complaint = complaint_of(Advised("bad\nvalue"))
    assert complaint is not None
    assert complaint.line == "bad value. Do this"
    assert complaint.exit_code == 3


def test_a_question_keeps_its_own_mark():
    complaint = complaint_of(P2pmoeError("did you mean 'kernels'?", advice="see help"))
    assert complaint is not None
    assert complaint.line == "did you mean 'kernels'? See help"


def test_a_package_that_an_extra_brings_is_for_people():
    complaint = complaint_of(ModuleNotFoundError("gone", name="starlette.types"))
    assert complaint is not None
    assert complaint.line.endswith("Install them: pip install 'p2pmoe[serve]'")
    assert complaint.exit_code == 2
    assert complaint_of(ModuleNotFoundError("gone", name="abacus")) is None


def test_an_error_inside_nurseries_is_found():
    group = ExceptionGroup("outer", [ExceptionGroup("inner", [Advised("deep")])])
    complaint = complaint_of(group)
    assert complaint is not None
    assert complaint.line == "deep. Do this"


def test_a_full_disk_is_for_people():
    complaint = complaint_of(OSError(errno.ENOSPC, "No space left on device", "x"))
    assert complaint is not None
    assert complaint.line.startswith("No space left on device (x). Free some space")
    assert complaint.exit_code == 2


def test_a_fault_of_the_program_is_no_complaint():
    assert complaint_of(KeyError("x")) is None
    assert complaint_of(OSError(errno.EBADF, "bad file")) is None


def test_an_option_that_is_no_number_is_one_line_that_names_the_help():
    with pytest.raises(typer.BadParameter) as caught:
        build_app()(["serve", "pocket", "--context", "x"], standalone_mode=False)
    complaint = complaint_of(caught.value)
    assert complaint is not None
    assert complaint.line.startswith("invalid value for '--context'")
    assert complaint.line.endswith("serve --help")
    assert complaint.exit_code == 2


def test_what_a_peer_wrote_cannot_steer_the_terminal():
    complaint = complaint_of(P2pmoeError("refused: \x1b[2J\x07\u202e gone"))
    assert complaint is not None
    assert complaint.line == "refused: \ufffd[2J\ufffd\ufffd gone"


def test_an_option_of_serve_before_the_dashes_is_told_where_it_goes():
    with pytest.raises(Exception, match=r"(?i)no such option") as raised:
        build_app()(["eval", "pocket", "--ram", "8M"], standalone_mode=False)
    complaint = complaint_of(raised.value)
    assert complaint is not None
    assert complaint.line.endswith("Options of `serve` go behind --")
