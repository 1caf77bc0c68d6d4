# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What the linters say of rendered files is found in what they print."""

from collections import Counter

import pytest
from rendering.lint import (  # type: ignore[import-not-found]
    _split,
    findings,
    unformatted,
)

pytest.importorskip("ufmt")
pytest.importorskip("flake8")


def test_findings_are_told_by_tree_and_path(tmp_path):
    for when, text in (("before", "x = 1\n"), ("after", "import os\nx  =  1\n")):
        folder = tmp_path / when / "executorch"
        folder.mkdir(parents=True)
        (folder / "a.py").write_text(text)
        (folder / "b.py").write_text("x = (\n")
    (tmp_path / "pyproject.toml").touch()
    assert unformatted(tmp_path) == {
        "before/executorch/b.py",
        "after/executorch/a.py",
        "after/executorch/b.py",
    }
    before, after = _split(findings(tmp_path))
    codes = Counter(line.split()[1] for line in (after - before).elements())
    assert codes["F401"] == 1 and codes["E221"] == 1
