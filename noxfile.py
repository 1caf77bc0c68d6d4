# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Tests with releases of torch and executorch other than those of constraints.txt, each
in an environment of its own: ``make test-versions``.

Environments are left in ``.nox``, 2 to 7 GB each: torch comes with CUDA where the index
has no other. Arguments after ``--`` replace the tests:
``nox -s "fit(torch='2.14.1', executorch='1.5.1')" -- test/torch_export``.
"""

import os

import nox

nox.options.default_venv_backend = "venv"

# The ends of what is supported, and what is beside them.
FIT = [
    ("2.13.0", "1.4.0"),
    ("2.13.0", "1.5.0"),
    ("2.14.1", "1.4.1"),
    ("2.14.1", "1.5.1"),
]
UNFIT = [
    ("2.12.1", "1.5.1"),
    ("2.13.0", "1.3.1"),
    ("2.15.0", "1.5.1"),
]

# Not among them are tests of this project alone, and those that count the instructions
# of large models: the numbers are those of one release.
TESTS = [
    "test/backends",
    "test/cpp",
    "test/exir",
    "test/torch_export",
    "test/torch_patches",
]

# The releases are those named here, whatever pip is told to install elsewhere.
ENVIRONMENT = {"PIP_CONSTRAINT": os.devnull, "OMP_NUM_THREADS": "1"}


@nox.session
@nox.parametrize("torch, executorch", FIT)
def fit(session: nox.Session, torch: str, executorch: str) -> None:
    """Runs the tests with releases that are supported."""
    session.env.update(ENVIRONMENT)
    packages = (f"torch=={torch}", f"executorch=={executorch}")
    session.install(*packages, "-e", ".[test]")
    session.run("pytest", "-n", "2", "--dist", "worksteal", *session.posargs or TESTS)


@nox.session
@nox.parametrize("torch, executorch", UNFIT)
def unfit(session: nox.Session, torch: str, executorch: str) -> None:
    """Runs the tests of what happens with releases that are not supported."""
    session.env.update(ENVIRONMENT)
    session.install(f"torch=={torch}", f"executorch=={executorch}", "pytest", "wrapt")
    session.install("--no-deps", "-e", ".")
    # Without test/conftest.py, which imports what is not available here.
    directory = "test/torch_patches"
    tests = session.posargs or [f"{directory}/test_unfit.py"]
    session.run("pytest", f"--confcutdir={directory}", *tests)
