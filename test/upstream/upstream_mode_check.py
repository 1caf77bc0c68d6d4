# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""A plug-in of pytest, for the processes of upstream's tests: stops a run that does not
use the executorch that it is meant to use, or stopped using it on the way."""

import sys
from pathlib import Path

import pytest
from executorch import exir
from modes import Mode, MODES

#: Exit code of a process that ran in another mode.
WRONG_MODE = 90


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mode-of-upstream", required=True)
    parser.addoption("--tree-of-upstream", type=Path)


def pytest_sessionstart(session: pytest.Session) -> None:
    _check(session.config)


def pytest_sessionfinish(session: pytest.Session) -> None:
    _check(session.config)


def _check(config: pytest.Config) -> None:
    tree = config.getoption("--tree-of-upstream")
    if not Path(exir.__file__).is_relative_to(tree):
        pytest.exit(f"tests of {tree} would test {exir.__file__}", WRONG_MODE)
    check(MODES[config.getoption("--mode-of-upstream")])


def check(mode: Mode) -> None:
    """Ends pytest if this process is not in a mode."""
    flag = getattr(exir.EdgeCompileConfig(), "lift_synthesized_constants", None)
    live = _executorch_is_edited_live()
    if (flag, live) != (mode.expected_flag, mode.live):
        pytest.exit(
            f"not the mode {mode.name}: edits applied: {live}, flag: {flag}", WRONG_MODE
        )


def _executorch_is_edited_live() -> bool:
    """Whether edits were applied to executorch as it is in this process. Not so if it
    comes from a tree that has them; torch may be edited then."""
    activation = sys.modules.get("executorch.torch_patches.activation")
    if activation is None or not activation.is_active():
        return False
    from executorch.torch_patches.installed import find_targets

    return any(target.module.startswith("executorch.") for target in find_targets())
