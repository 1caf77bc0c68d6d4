# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Applies the edits, and makes the directories of tests importable under the name of
the package that they become in executorch (``torch_patches/rendering/series.py``), so
that the files can go there as they are."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import executorch.exir.synthesized_constants  # noqa: F401
from executorch.torch_patches.rendering.series import TEST_DIRECTORIES, TEST_PACKAGE

spec = ModuleSpec(TEST_PACKAGE, loader=None, is_package=True)
root = Path(__file__).parents[1]
spec.submodule_search_locations = [str(root / path) for path in TEST_DIRECTORIES]
sys.modules[TEST_PACKAGE] = importlib.util.module_from_spec(spec)

# Tests in pytorch import each other by their file names.
sys.path.append(str(root / "test/torch_export"))
