# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""A rendered tree in front of the installed packages does what the live patch does."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(name="tree", scope="module")
def tree_fixture(tmp_path_factory):
    tree = tmp_path_factory.mktemp("rendered") / "tree"
    script = HERE / "rendered_tree.py"
    subprocess.run([sys.executable, str(script), str(tree)], check=True)
    return str(tree)


def test_programs_are_those_of_the_live_patch_in_every_byte(run, tree):
    programs = (HERE.parent / "lowered_programs.py").read_text(encoding="utf-8")
    check = f"""
import executorch.exir
for module in (torch, executorch.exir, executorch.exir.synthesized_constants):
    assert module.__file__.startswith({tree!r}), module.__file__
assert not [name for name in sys.modules if "torch_patches" in name]
"""
    rendered = run(programs + check, autoload=False, PYTHONPATH=tree)
    assert len(rendered.splitlines()) == 12
    assert rendered == run(programs)


def test_the_live_patch_finds_nothing_to_do_in_it(run, tree):
    run(
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert lifted() == 1
        assert not ours(caught)
        from executorch.torch_patches.activation import is_active
        from executorch.torch_patches.installed import find_targets
        assert is_active() and not find_targets()
        """,
        PYTHONPATH=tree,
    )


def test_its_tests_pass(run, tree):
    files = [
        f"{tree}/test/export/test_synthesized_constant.py",
        f"{tree}/test/export/test_synthesized_constant_serialization.py",
        f"{tree}/executorch/exir/synthesized_constants/test/test_issue_15505.py",
        f"{tree}/executorch/exir/synthesized_constants/test/test_kind.py",
    ]
    run(
        f"""
        import pytest
        assert pytest.main(["-q", "-p", "no:cacheprovider", *{files}]) == 0
        """,
        autoload=False,
        PYTHONPATH=tree,
    )


@pytest.mark.parametrize("first", ["_serialize._program", "capture._config", "schema"])
def test_parts_of_exir_are_imported_without_the_whole(run, tree, first):
    # As in a program that Buck builds of some targets of exir.
    run(
        f"""
        import importlib, types
        whole = types.ModuleType("executorch.exir")
        whole.__path__ = ["{tree}/executorch/exir"]
        import executorch
        sys.modules["executorch.exir"] = executorch.exir = whole
        importlib.import_module("executorch.exir.{first}")
        importlib.import_module("executorch.exir.synthesized_constants")
        """,
        autoload=False,
        PYTHONPATH=tree,
    )


def test_the_schema_is_what_its_generator_checks(run, tree):
    run(
        """
        from torch._export.serde import schema_check
        commit = schema_check.update_schema()
        assert (commit.additions, commit.subtractions) == ({}, {})
        assert commit.checksum_next == commit.checksum_head
        assert commit.thrift_checksum_next == commit.thrift_checksum_head
        assert commit.thrift_checksum_real == commit.thrift_checksum_head
        assert commit.base["SCHEMA_VERSION"] == commit.result["SCHEMA_VERSION"]
        """,
        autoload=False,
        PYTHONPATH=tree,
    )
