# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Differences are found in both directions, and only listed ones pass."""

import expecttest
import pytest
from comparison import compare, Expected, read_expected, table
from modes import FORCED, OFF
from outcomes import Outcome, Results

GOOD = Outcome("passed")
BAD = Outcome("failed", "AssertionError: 3 != 2")
LISTED = {"t": Expected("3 != 2", "counts ops")}


def _compare(before, after, mode=FORCED, expected=None):
    unpatched, other = Results(), Results()
    unpatched.outcomes.update(before)
    other.outcomes.update(after)
    return compare(mode, unpatched, other, expected or {})


def test_the_same_is_good_even_if_it_fails():
    compared = _compare({"t": BAD, "u": GOOD}, {"t": BAD, "u": GOOD})
    assert compared.good
    assert compared.differences == []


@pytest.mark.parametrize(
    "before,after",
    [
        ({"t": GOOD}, {"t": BAD}),
        ({"t": BAD}, {"t": GOOD}),
        ({"t": GOOD}, {"t": Outcome("skipped")}),
        ({"t": GOOD}, {"t": Outcome("crashed")}),
        ({"t": GOOD}, {}),
        ({}, {"t": GOOD}),
        ({"t": BAD}, {"t": Outcome("failed", "RuntimeError")}),
    ],
)
def test_a_difference_that_is_not_listed_is_not_good(before, after):
    compared = _compare(before, after)
    assert not compared.good
    assert [d.test for d in compared.unexpected] == ["t"]


def test_a_listed_difference_is_good():
    compared = _compare({"t": GOOD}, {"t": BAD}, expected=LISTED)
    assert compared.good
    assert [d.reason for d in compared.differences] == ["counts ops"]


def test_a_listed_test_must_say_what_is_listed():
    after = Outcome("failed", "AssertionError: 4 != 2")
    assert not _compare({"t": GOOD}, {"t": after}, expected=LISTED).good
    assert not _compare({"t": GOOD}, {"t": Outcome("crashed")}, expected=LISTED).good


def test_a_listed_difference_that_is_gone_is_not_good():
    compared = _compare({"t": GOOD}, {"t": GOOD}, expected=LISTED)
    assert compared.vanished == ["t"]
    assert not compared.good


def test_what_was_not_run_is_not_missed():
    assert _compare({"u": GOOD}, {"u": GOOD}, expected=LISTED).good


def test_with_the_flag_off_nothing_may_differ():
    assert not _compare({"t": GOOD}, {"t": BAD}, OFF, LISTED).good
    assert _compare({"t": GOOD}, {"t": GOOD}, OFF, LISTED).good


def test_the_list_is_read(tmp_path):
    path = tmp_path / "expected.yaml"
    path.write_text(
        "- reason: >\n    Counts\n    ops.\n  tests:\n    a.py::A::t: 3 != 2\n"
        "- reason: Golden text.\n  tests: {b.py::t: 'no full'}\n"
    )
    assert read_expected(path) == {
        "a.py::A::t": Expected("3 != 2", "Counts ops."),
        "b.py::t": Expected("no full", "Golden text."),
    }


@pytest.mark.parametrize(
    "text,error",
    [
        ("- {reason: '', tests: {a: b}}", "a needs a reason"),
        ("- {reason: why, tests: {a: ''}}", "a needs a reason and a message"),
        ("- {reason: why, tests: {a: b}}\n- {reason: x, tests: {a: b}}", "twice"),
    ],
)
def test_an_incomplete_list_is_an_error(tmp_path, text, error):
    path = tmp_path / "expected.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=error):
        read_expected(path)


class TextTest(expecttest.TestCase):
    def test_what_is_printed(self):
        before = {"a": GOOD, "b": GOOD, "c": GOOD, "t": GOOD}
        after = {"a": BAD, "c": Outcome("crashed"), "t": BAD}
        listed = {**LISTED, "b": Expected("x", "why")}
        compared = _compare({**before, "d": GOOD}, {**after, "d": GOOD})
        compared = _compare(before, after, expected=listed)
        self.assertExpectedInline(
            str(compared),
            """\
forced against unpatched:
  t: passed -> failed
    failed: AssertionError: 3 != 2
    expected: counts ops
  NOT LISTED a: passed -> failed
    failed: AssertionError: 3 != 2
  NOT LISTED b: passed -> absent
  NOT LISTED c: passed -> crashed""",
        )
        results = {"unpatched": Results(before), "forced": Results(after, 1.5)}
        self.assertExpectedInline(
            table(results, [compared]),
            """\
mode         tests    passed    failed    skipped    crashed    seconds    differ    not listed
---------  -------  --------  --------  ---------  ---------  ---------  --------  ------------
unpatched        4         4         0          0          0          0
forced           3         0         2          0          1          2         4             3""",
        )
        self.assertExpectedInline(
            str(_compare(before, before, OFF)),
            """\
off against unpatched:
  the same, test by test""",
        )
