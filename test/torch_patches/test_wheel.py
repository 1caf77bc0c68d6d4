# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What a wheel of this project holds, and that it works from a site directory other
than that of executorch."""

import importlib.util
import os
import zipfile
from pathlib import Path

import pytest
from sites import NEW, pip, ROOT


@pytest.fixture(scope="module")
def elsewhere(wheel, tmp_path_factory):
    """Returns a search path where the wheel lies in a directory of its own, before that
    of the installed executorch."""
    target = tmp_path_factory.mktemp("elsewhere")
    pip("install", "--no-deps", "--target", str(target), str(wheel))
    stock = Path(importlib.util.find_spec("executorch.exir").origin).parents[2]
    if (stock / NEW[0]).is_dir():
        pytest.skip("this project is installed beside executorch, not as editable")
    return os.pathsep.join([str(target), str(stock)])


def test_the_wheel_adds_two_packages_and_nothing_that_executorch_owns(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    metadata = [n for n in names if ".dist-info/" in n]
    added = set(names) - set(metadata)
    assert all(name.startswith(NEW) and name.endswith(".py") for name in added)
    expected = {
        f"executorch/{path.relative_to(ROOT)}"
        for package in ("exir/synthesized_constants", "torch_patches")
        for path in (ROOT / package).rglob("*.py")
    }
    assert added == expected
    entry_points = [n for n in metadata if n.endswith("/entry_points.txt")]
    assert b"[torch.backends]" in zipfile.ZipFile(wheel).read(entry_points[0])


# Without site packages (-S): the search path is what PYTHONPATH says.


def test_another_site_directory_needs_no_import_of_ours(run, elsewhere):
    run("assert lifted() == 1", "-S", PYTHONPATH=elsewhere)


def test_another_site_directory_without_the_entry_point(run, elsewhere):
    run(
        """
        import executorch.exir, importlib.util
        name = "executorch.exir.synthesized_constants"
        assert importlib.util.find_spec(name) is None
        import executorch.torch_patches
        import executorch.exir.synthesized_constants as found
        assert found.__file__.startswith(sys.path[1]), (found.__file__, sys.path)
        assert lifted() == 1
        """,
        "-S",
        autoload=False,
        PYTHONPATH=elsewhere,
    )
