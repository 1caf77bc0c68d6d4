# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What pip leaves: after this project is uninstalled nothing, after executorch was
replaced a clear message."""

import importlib.metadata
from functools import partial

import pytest
from executorch.torch_patches import edits, installed
from executorch.torch_patches.edit import Replace
from sites import executorch_wheel, OURS, Site

VERSION = importlib.metadata.version("executorch")
WORKS = "assert lifted() == 1"
PROGRAM = "executorch.exir.program._program"


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "site")


@pytest.fixture(name="run_in")
def run_in_fixture(site, run):
    """Returns ``run`` with the interpreter of the site, which writes no byte code. The
    root of this project has metadata of its own and must not be the directory."""
    return partial(
        run, python=site.python, cwd=site.packages, PYTHONDONTWRITEBYTECODE="1"
    )


@pytest.fixture(scope="module")
def executorch(tmp_path_factory):
    """Returns a wheel of executorch in its installed version."""
    return executorch_wheel(tmp_path_factory.mktemp("executorch"), VERSION)


def misfit(*parts):
    """Returns code that fails unless the packages stay as they are, with one warning
    that has all ``parts``."""
    return f"""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        import torch
        import executorch.exir
    (message,) = ours(caught)
    assert all(part in message for part in {parts!r}), message
    assert is_stock()
    """


def test_uninstalled_it_leaves_nothing(site, executorch, wheel, run_in):
    site.install(executorch)
    files, directories = site.files(), site.directories()
    site.install(wheel)
    run_in(WORKS, PYTHONDONTWRITEBYTECODE="")
    assert site.files() > files and site.directories() > directories
    assert any(path.endswith(".pyc") for path in site.files() - files)
    site.uninstall(OURS)
    assert (site.files(), site.directories()) == (files, directories)
    run_in(
        """
        import importlib.metadata
        warnings.simplefilter("error", RuntimeWarning)
        assert is_stock()
        names = [e.name for e in importlib.metadata.entry_points(group="torch.backends")]
        assert "synthesized_constants" not in names
        """
    )


def test_executorch_can_be_replaced_by_a_release_that_is_not_supported_and_back(
    site, executorch, wheel, run_in, tmp_path
):
    site.install(executorch)
    site.install(wheel)
    unsupported = ".".join(map(str, installed.SUPPORTED["executorch"][1])) + ".0"
    site.install(executorch_wheel(tmp_path, unsupported))
    run_in(misfit(f"executorch {unsupported} is installed; supported: >="))
    site.install(executorch)
    run_in(WORKS)


def test_executorch_can_be_replaced_by_one_whose_code_has_moved_on(
    site, wheel, run_in, tmp_path
):
    drifted = VERSION + ".post1"
    edit = next(e for e in edits.by_module()[PROGRAM] if isinstance(e, Replace))
    path = PROGRAM.replace(".", "/") + ".py"
    changes = {path: (edit.anchor, edit.anchor.replace("(", "_moved_on(", 1))}
    site.install(executorch_wheel(tmp_path, drifted, changes))
    site.install(wheel)
    run_in(
        misfit(
            f"executorch {drifted}, ",
            f"{path}: anchor {edit.anchor.strip()!r} in {edit.owner!r} was found 0 times",
        )
    )


def test_it_can_be_installed_before_executorch_and_left_behind_by_it(
    site, executorch, wheel, run_in
):
    empty = site.files()
    site.install(wheel, "--no-deps")
    alone = site.files()
    without_executorch = """
    import torch
    try:
        import executorch.exir.synthesized_constants
    except RuntimeError as error:
        assert "executorch is not installed; supported: >=" in str(error), error
    else:
        assert False, "the import did not fail"
    """
    run_in(without_executorch)
    site.install(executorch)
    run_in(WORKS)
    # Of packages that share a directory pip leaves some directories without files.
    site.uninstall("executorch")
    assert site.files() == alone
    run_in(without_executorch)
    site.uninstall(OURS)
    assert site.files() == empty
