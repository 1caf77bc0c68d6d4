# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Some of the tests that executorch ships give what they give unpatched, with the flag
off and with the flag on by default. ``make upstream-test`` runs the others."""

import random

import numpy as np
import pytest
import torch
from modes import FORCED, LIVE, UNPATCHED
from run_upstream import main, Run, run_and_compare, run_suite, RunError
from same_random_numbers import pytest_runtest_setup
from suites import COMPACT, Suite
from upstream_mode_check import check


def test_a_compact_suite_gives_the_same(tmp_path):
    off, forced = run_and_compare(Run(tmp_path), LIVE, [COMPACT])
    assert off.good and not off.differences, off
    assert forced.good, forced


@pytest.mark.parametrize("mode", [UNPATCHED, FORCED])
def test_a_process_in_another_mode_is_found_out(mode):
    # This process is patched, with the flag off.
    with pytest.raises(pytest.exit.Exception, match=f"not the mode {mode.name}"):
        check(mode)


def test_what_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(RunError, match="nowhere.py does not exist"):
        run_suite(Run(tmp_path), UNPATCHED, Suite.of("exir/nowhere.py"))


def test_an_error_is_one_line(tmp_path, capsys):
    arguments = ["exir/nowhere.py", "--output", str(tmp_path)]
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_every_test_begins_with_the_same_random_numbers():
    drawn = []
    for _ in range(2):
        pytest_runtest_setup()
        drawn.append((random.random(), np.random.rand(), torch.rand(1).item()))
    assert drawn[0] == drawn[1]
