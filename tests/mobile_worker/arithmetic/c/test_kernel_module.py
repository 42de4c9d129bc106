"""Each argument of the extension in turn made wrong: an error, no crash.

Random ones are in tests/support/extension_fuzz.py; see native/test_extension.py.
"""

import numpy as np
import pytest

from mobile_worker.arithmetic.native.extension import load_extension
from mobile_worker.arithmetic.native.native_kernel import native_sets
from tests.support.extension_fuzz import good_calls

SETS = native_sets()
built = pytest.mark.skipif(not SETS, reason="the extension was not built here")
REFUSALS = (ValueError, TypeError, OverflowError, BufferError, MemoryError)
BIG = [-1, -(2**31), 2**31 - 1, 2**31, 2**32 + 32, 2**62, 2**63 - 1, 2**63, 2**64]
NO_NUMBERS = [None, 1.5, "32", [32], object(), np.float32(32)]
NO_BUFFERS = [1, "text", [1.0], object()]
NAMES = ("product", "experts", "code_rows", "linear", "routed")
# Where sizes and buffers stand, within the tuples of a call: a matrix is (format,
# n_rows, n_cols, raw, bias), an expert (kind, alpha, limit, gate, up, down, rows).
SIZES = {
    "product": [(1, 0), (1, 1), (1, 2), (5,), (7,), (8,)],
    "experts": [
        *((1, 0, 0), (1, 0, 3, 0), (1, 0, 3, 1), (1, 0, 4, 2), (1, 0, 5, 1)),
        *((5,), (6,), (7,)),
    ],
    "code_rows": [(2,)],
    "linear": [(3,), (4,)],
    "routed": [(5,), (6,), (7,), (8,), (10,)],
}
BUFFERS = {
    "product": [(1, 3), (1, 4), (2,), (3,), (6,)],
    "experts": [(1, 0, 3, 3), (1, 0, 4, 4), (1, 0, 6), (2,), (3,), (4,), (8, 0)],
    "code_rows": [(1,), (3,), (4,)],
    "linear": [(2,), (5,)],
    "routed": [(2,), (3,), (4,), (9,)],
}
RESULTS = {
    "product": [(6,)],
    "experts": [(8, 0)],
    "code_rows": [(3,), (4,)],
    "linear": [(5,)],
    "routed": [(9,)],
}
PLACES = [(name, place) for name in NAMES for place in BUFFERS[name]]
ZERO_IS_RIGHT = {  # the first column, SWIGLU, floats as they are
    *(("product", (8,)), ("experts", (1, 0, 0)), ("experts", (7,))),
}


def changed(arguments, place: tuple[int, ...], value):
    """Return the tuple with what stands at a place, within tuples, replaced."""
    first, *rest = place
    new = changed(arguments[first], tuple(rest), value) if rest else value
    return (*arguments[:first], new, *arguments[first + 1 :])


def at(arguments, place: tuple[int, ...]):
    for index in place:
        arguments = arguments[index]
    return arguments


def call(name: str, arguments) -> int:
    return getattr(load_extension(), name)(*arguments)


@built
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("own", SETS)
def test_what_fits_is_computed(own: str, name: str) -> None:
    assert call(name, good_calls(own)[name]) == 0
    assert call(name, good_calls(own, n=0)[name]) == 0


@built
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", [*BIG, 9, 33, 0])
def test_sizes_that_do_not_fit_are_refused(name: str, number: int) -> None:
    for place in SIZES[name]:
        if number or (name, place) not in ZERO_IS_RIGHT:
            arguments = changed(good_calls(SETS[0])[name], place, number)
            with pytest.raises(REFUSALS):
                call(name, arguments)


@built
@pytest.mark.parametrize("name", NAMES)
def test_what_is_no_number_is_refused(name: str) -> None:
    for place in SIZES[name]:
        for wrong in NO_NUMBERS:
            with pytest.raises(TypeError):
                call(name, changed(good_calls(SETS[0])[name], place, wrong))


@built
@pytest.mark.parametrize("number", [-1, 4, 5, 9, 15, 16, 24, 41, 255, 2**31 - 1])
def test_formats_that_cannot_be_computed_with_are_refused(number: int) -> None:
    arguments = changed(good_calls(SETS[0])["product"], (1, 0), number)
    with pytest.raises(ValueError, match=f"in format {number}"):
        call("product", arguments)


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_a_buffer_of_another_length_is_refused(name: str, place) -> None:
    arguments = good_calls(SETS[0])[name]
    right = at(arguments, place)
    for length in (0, 1, right.size - 1, right.size + 1, 2 * right.size):
        with pytest.raises(ValueError, match="bytes, not"):
            call(name, changed(arguments, place, np.zeros(length, right.dtype)))


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_what_is_no_plain_buffer_is_refused(name: str, place) -> None:
    arguments = good_calls(SETS[0])[name]
    right = at(arguments, place)
    for wrong in (*NO_BUFFERS, np.repeat(right, 2)[::2]):
        with pytest.raises(REFUSALS):
            call(name, changed(arguments, place, wrong))


@built
@pytest.mark.parametrize(("name", "place"), PLACES)
def test_an_address_that_the_values_must_not_have_is_refused(name: str, place) -> None:
    """Codes and weights are bytes and may lie anywhere."""
    arguments = good_calls(SETS[0])[name]
    right = at(arguments, place)
    room = np.zeros(right.nbytes + 16, np.uint8)
    start = -room.ctypes.data % 8 + 1
    off = room[start : start + right.nbytes].view(right.dtype)
    off[:] = right.ravel()
    if right.itemsize == 1:
        assert call(name, changed(arguments, place, off)) == 0
        return
    with pytest.raises(ValueError, match="not aligned"):
        call(name, changed(arguments, place, off))


@built
@pytest.mark.parametrize("name", NAMES)
def test_results_that_may_not_be_written_are_refused(name: str) -> None:
    for place in RESULTS[name]:
        arguments = good_calls(SETS[0])[name]
        frozen = at(arguments, place).copy()
        frozen.flags.writeable = False
        for wrong in (frozen, bytes(frozen.nbytes)):
            with pytest.raises((BufferError, ValueError)):
                call(name, changed(arguments, place, wrong))


@built
@pytest.mark.parametrize("row", [-1, 3, 2**31, 2**63 - 1, -(2**63)])
def test_a_row_that_is_not_there_is_refused(row: int) -> None:
    arguments = good_calls(SETS[0])["experts"]
    chosen = at(arguments, (1, 0, 6)).copy()
    chosen[-1] = row
    with pytest.raises(ValueError, match="no row"):
        call("experts", changed(arguments, (1, 0, 6), chosen))


@built
@pytest.mark.parametrize("length", [2**61, 2**62, 2**63 - 1])
def test_rows_that_lie_about_their_number_are_refused(length: int) -> None:
    """Eight bytes for each of 2^61 rows are no bytes at all in 64 bits."""

    class Boastful(bytearray):
        def __len__(self) -> int:
            return length

    arguments = good_calls(SETS[0])["experts"]
    for held in (b"", bytes(16)):
        with pytest.raises(ValueError, match="chosen rows"):
            call("experts", changed(arguments, (1, 0, 6), Boastful(held)))


@built
@pytest.mark.parametrize("name", NAMES)
def test_arguments_too_few_too_many_or_of_no_set_are_refused(name: str) -> None:
    arguments = good_calls(SETS[0])[name]
    for wrong in ((), arguments[:-1], (*arguments, 1), (None, *arguments[1:])):
        with pytest.raises(TypeError):
            call(name, wrong)
    for own in ("", "avx9", "numpy", "x" * 10_000, "avx2\0"):
        with pytest.raises(ValueError, match=r"instruction set|null"):
            call(name, (own, *arguments[1:]))


@built
def test_calls_and_results_of_different_numbers_are_refused() -> None:
    arguments = good_calls(SETS[0])["experts"]
    for place, wrong in (((1,), ()), ((8,), ()), ((1,), [*arguments[1]]), ((8,), None)):
        with pytest.raises((ValueError, TypeError)):
            call("experts", changed(arguments, place, wrong))


@built
def test_rows_without_buffers_are_refused() -> None:
    for n in (0, 1, 2**28, 2**62):
        arguments = good_calls(SETS[0])["product"]
        for place in ((2,), (3,)):
            arguments = changed(arguments, place, None)
        with pytest.raises((ValueError, TypeError)):
            call("product", changed(arguments, (5,), n))


@built
def test_what_is_not_held_is_refused() -> None:
    extension = load_extension()
    arguments = good_calls(SETS[0])
    matrix = arguments["product"][1]
    expert = arguments["experts"][1][0]
    wrong = (None, matrix, (), 7, "held", extension.hold_matrix(matrix))
    for each in (*wrong, extension.hold_expert(expert[:6])):
        if each is not wrong[-1]:
            with pytest.raises(REFUSALS):
                call("linear", changed(arguments["linear"], (1,), (each,)))
        with pytest.raises(REFUSALS):
            call("routed", changed(arguments["routed"], (1,), (each,)))
    for name, place in (("linear", 2), ("routed", 4)):
        with pytest.raises(ValueError, match="possible shape"):
            call(name, changed(arguments[name], (place,), None))
    for each in ((), matrix[:3], (*matrix, 1), None, changed(matrix, (1,), 0)):
        with pytest.raises(REFUSALS):
            extension.hold_matrix(each)
        with pytest.raises(REFUSALS):
            extension.hold_expert(changed(expert[:6], (4,), each))
    for each in ((), expert[:5], None, changed(expert[:6], (0,), 9)):
        with pytest.raises(REFUSALS):
            extension.hold_expert(each)


@built
def test_places_of_other_experts_are_left_alone_and_twice_is_refused() -> None:
    arguments = good_calls(SETS[0])["routed"]
    some = changed(arguments, (1,), arguments[1][:1])
    some = changed(some, (2,), np.array([5]))
    arguments[9][:] = 7
    assert call("routed", some) == 0
    assert (arguments[9][:, 0] == 7).all()
    assert not (arguments[9][:, 1] == 7).any()
    assert call("routed", changed(some, (3,), np.full((3, 2), 5))) == 2


@built
def test_one_expert_takes_every_row_without_choices() -> None:
    arguments = good_calls(SETS[0])["routed"]
    both = arguments[9].copy()
    assert call("routed", changed(arguments, (9,), both)) == 0
    whole = np.zeros((3, 64), np.float32)
    for place, value in (
        ((1,), arguments[1][:1]),
        ((2,), arguments[2][:1]),
        ((3,), None),
    ):
        arguments = changed(arguments, place, value)
    with pytest.raises(ValueError, match="do not fit"):
        call("routed", arguments)
    assert call("routed", (*arguments[:7], 1, 3, whole, 64)) == 0
    assert whole.tobytes() == both[:, 0].tobytes()
