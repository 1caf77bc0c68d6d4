# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Generated files of the schema of torch.export, with the generator of the torch that is
installed."""

import importlib.util
import re
from pathlib import Path

import pytest
from executorch.torch_patches.edit import apply_to_text, pending
from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering import schema_files
from executorch.torch_patches.rendering.series import edits_by_path, PYTORCH
from executorch.torch_patches.rendering.tree import Directory, read_text


class Files:
    """A tree that is installed torch, but for some files."""

    def __init__(self, changed=None):
        (package,) = importlib.util.find_spec("torch").submodule_search_locations
        self.installed = Directory(Path(package).parent)
        self.changed = changed or {}

    def read(self, path):
        if path in self.changed:
            return self.changed[path].encode()
        return self.installed.read(path)


def edited():
    source = read_text(Files(), schema_files.SCHEMA)
    edits = [edit for _, edit in edits_by_path(PYTORCH, ())[schema_files.SCHEMA]]
    return apply_to_text(source, pending(source, edits))


@pytest.fixture(name="whole", scope="module")
def whole_fixture():
    return schema_files.regenerate(Files(), edited())


def version(text):
    (found,) = re.findall(r"SCHEMA_VERSION = \((\d+), (\d+)\)", text)
    return tuple(map(int, found))


def test_the_minor_version_is_the_next(whole):
    major, minor = version(read_text(Files(), schema_files.SCHEMA))
    assert version(whole[schema_files.SCHEMA]) == (major, minor + 1)
    schema_files.check(Files(whole))


def test_the_schema_is_written_last(whole):
    assert len(whole) > 2
    assert list(whole)[-1] == schema_files.SCHEMA


def test_whatever_an_interrupted_run_has_written_the_next_one_completes(whole):
    paths = list(whole)
    for count in range(1, len(paths)):
        tree = Files({path: whole[path] for path in paths[:count]})
        assert schema_files.regenerate(tree, edited()) == whole


def test_a_generated_file_that_does_not_follow_is_named(whole):
    for path in list(whole)[:-1]:
        tree = Files({p: text for p, text in whole.items() if p != path})
        with pytest.raises(PatchError, match=f"^{path} is not what schema_check.py"):
            schema_files.check(tree)


def test_what_the_generator_prints_is_no_matter(whole):
    path = "torch/_export/serde/schema_check.py"
    chatty = read_text(Files(), path) + "\nprint('{')\n"
    assert schema_files.regenerate(Files({path: chatty}), edited()) == whole
