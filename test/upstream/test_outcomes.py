# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What is read from the log of a run is what the tests gave."""

import subprocess
import sys
import textwrap

import pytest
from outcomes import Outcome, Results

TESTS = """
    import os, unittest

    class Kinds(unittest.TestCase):
        def test_passes(self):
            pass

        def test_fails(self):
            self.assertEqual("a", "b")

        def test_fails_in_subtests(self):
            for i in range(4):
                with self.subTest(i=i):
                    self.assertEqual(i % 2, 0)

        @unittest.skip("why not")
        def test_is_skipped(self):
            pass

        @unittest.expectedFailure
        def test_fails_as_expected(self):
            self.fail()

        @unittest.expectedFailure
        def test_passes_unexpectedly(self):
            pass

    class SetUp(unittest.TestCase):
        def setUp(self):
            raise ValueError(f"{object()} in {__file__}")

        def test_has_no_set_up(self):
            pass

    class TearDown(unittest.TestCase):
        def tearDown(self):
            raise ValueError("of the tear-down")

        def test_passes_until_then(self):
            pass
"""

#: Ends the process, so that what follows is not run.
CRASH = """
    import os

    def test_runs():
        pass

    def test_ends_the_process():
        os._exit(1)

    def test_is_never_run():
        pass
"""


def _run(folder, **modules):
    for name, code in modules.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(code))
    log = folder / "log.jsonl"
    options = ("-c", "/dev/null", "-p", "no:cacheprovider", f"--report-log={log}")
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--continue-on-collection-errors"],
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    results = Results()
    results.add(log)
    return results


def test_each_kind_of_outcome_is_told_apart(tmp_path):
    results = _run(tmp_path, test_kinds=TESTS)
    short = {test.split("::")[-1]: o for test, o in results.outcomes.items()}
    assert short == {
        "test_passes": Outcome("passed"),
        "test_fails": Outcome("failed", "AssertionError: 'a' != 'b'\n- a\n+ b"),
        "test_fails_in_subtests": Outcome(
            "failed", "AssertionError: 1 != 0\nAssertionError: 1 != 0"
        ),
        "test_is_skipped": Outcome("skipped"),
        "test_fails_as_expected": Outcome("xfailed"),
        "test_passes_unexpectedly": Outcome("failed", "Failed: Unexpected success"),
        # Neither addresses nor folders: they would differ without a reason.
        "test_has_no_set_up": Outcome(
            "failed", "ValueError: <object object at 0x…> in …/test_kinds.py"
        ),
        "test_passes_until_then": Outcome("failed", "ValueError: of the tear-down"),
    }
    assert results.count("failed") == 5


def test_a_test_that_ends_the_process_is_a_crash(tmp_path):
    results = _run(tmp_path, test_crash=CRASH)
    assert results.outcomes == {
        "test_crash.py::test_runs": Outcome("passed"),
        "test_crash.py::test_ends_the_process": Outcome("crashed"),
    }


def test_a_module_that_can_not_be_imported_is_a_failure(tmp_path):
    results = _run(tmp_path, test_bad="import no_such_module", test_good=CRASH)
    assert results.outcomes["test_bad.py"].status == "failed"
    assert "No module named 'no_such_module'" in results.outcomes["test_bad.py"].says
    assert results.outcomes["test_good.py::test_runs"] == Outcome("passed")


def test_half_a_line_is_no_report(tmp_path):
    log = tmp_path / "log.jsonl"
    whole = '{"nodeid": "a", "outcome": "passed", "when": "teardown", %s}'
    log.write_text(whole % '"$report_type": "TestReport"' + '\n{"nodeid": "b", "outc')
    results = Results()
    results.add(log)
    assert results.outcomes == {"a": Outcome("passed")}


@pytest.mark.parametrize("text", ["", '{"nodeid"\n'])
def test_what_is_no_log_is_an_error(tmp_path, text):
    log = tmp_path / "log.jsonl"
    if text:
        log.write_text(text)
    with pytest.raises((ValueError, FileNotFoundError)):
        Results().add(log)
