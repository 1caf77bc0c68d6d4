# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""BUCK files of the series. Wheels have none, so those of upstream are made up here."""

import ast
import importlib.util
from pathlib import Path, PurePosixPath

import expecttest
import pytest
from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering import buck_files
from executorch.torch_patches.rendering.series import (
    EXECUTORCH,
    new_files,
    PACKAGE,
    patches,
)
from executorch.torch_patches.rendering.tree import Directory

ROOT = Path(__file__).parents[3]
NAME = "executorch.exir.synthesized_constants"


def made(tmp_path, files):
    for path, text in files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Directory(tmp_path)


def depend(tmp_path, build_file, path="exir/planning.py", name="exir/BUCK", module=""):
    """Returns the build file after ``path`` began to import the package."""
    tree = made(tmp_path, {name: build_file})
    edited = {
        path: f"import os\nfrom {NAME}{module or '.recipe'} import (\n    a,\n)\n"
    }
    changed = buck_files.with_dependencies(tree, {}, edited)
    again = buck_files.with_dependencies(tree, changed, edited)
    assert not again
    return changed.get(name)


class DependencyTest(expecttest.TestCase):
    @pytest.fixture(autouse=True)
    def _path(self, tmp_path):
        self.path = tmp_path

    def test_the_target_of_the_file_gets_it_in_order(self):
        text = """\
fbcode_target(_kind = runtime.python_library,
    name = "planning",
    srcs = ["planning.py"],
    deps = [
        "fbsource//third-party/pypi/z:z",
        ":memory",
        "//caffe2:torch",
        "//executorch/exir:tensor",
        "//executorch/exir/verification:verifier",
    ] + (["//executorch/fb:logger"] if not runtime.is_oss else []),
)
fbcode_target(_kind = runtime.python_library,
    name = "other",
    srcs = ["other.py"],
    deps = [
        "//caffe2:torch",
    ],
)
"""
        self.assertExpectedInline(
            depend(self.path, text),
            """\
fbcode_target(_kind = runtime.python_library,
    name = "planning",
    srcs = ["planning.py"],
    deps = [
        "fbsource//third-party/pypi/z:z",
        ":memory",
        "//caffe2:torch",
        "//executorch/exir:tensor",
        "//executorch/exir/synthesized_constants:lib",
        "//executorch/exir/verification:verifier",
    ] + (["//executorch/fb:logger"] if not runtime.is_oss else []),
)
fbcode_target(_kind = runtime.python_library,
    name = "other",
    srcs = ["other.py"],
    deps = [
        "//caffe2:torch",
    ],
)
""",
        )

    def test_each_target_of_the_file_gets_it(self):
        text = """\
def define_common_targets():
    runtime.python_library(
        name = "lib",
        srcs = ["sub/tool.py"],
        deps = [
            "//executorch/exir:lib",
        ],
    )
    runtime.python_binary(
        name = "tool",
        srcs = ["sub/tool.py"] + ["main.py"],
        deps = [
            ":lib",
            # the last
            "//caffe2:torch",  # @manual
        ],
    )
"""
        self.assertExpectedInline(
            depend(
                self.path,
                text,
                path="backends/b/sub/tool.py",
                name="backends/b/TARGETS",
                module="",
            ),
            """\
def define_common_targets():
    runtime.python_library(
        name = "lib",
        srcs = ["sub/tool.py"],
        deps = [
            "//executorch/exir:lib",
            "//executorch/exir/synthesized_constants:lib",
        ],
    )
    runtime.python_binary(
        name = "tool",
        srcs = ["sub/tool.py"] + ["main.py"],
        deps = [
            ":lib",
            # the last
            "//caffe2:torch",  # @manual
            "//executorch/exir/synthesized_constants:lib",
        ],
    )
""",
        )

    def test_the_file_of_the_package(self):
        self.assertExpectedInline(
            buck_files.package_file({"lift", "placement", "xnnpack"}),
            """\
load("@fbcode_macros//build_defs:build_file_migration.bzl", "fbcode_target")
load("@fbsource//xplat/executorch/build:runtime_wrapper.bzl", "runtime")

oncall("executorch")

fbcode_target(
    _kind = runtime.python_library,
    name = "names",
    srcs = [
        "placement.py",
    ],
    visibility = ["PUBLIC"],
    deps = [
        "//executorch/exir:schema",
    ],
)

fbcode_target(
    _kind = runtime.python_library,
    name = "lib",
    srcs = [
        "lift.py",
    ],
    visibility = ["PUBLIC"],
    deps = [
        ":names",
        "//caffe2:torch",
        "//executorch/exir:delegate",
        "//executorch/exir:error",
        "//executorch/exir:graph_module",
        "//executorch/exir:schema",
        "//executorch/exir:tensor",
        "//executorch/exir:tensor_layout",
        "//executorch/exir/_serialize:lib",
        "//executorch/exir/dialects:lib",
        "//executorch/exir/dialects/edge:lib",
    ],
)

fbcode_target(
    _kind = runtime.python_library,
    name = "xnnpack",
    srcs = [
        "xnnpack.py",
    ],
    visibility = ["PUBLIC"],
    deps = [
        "//caffe2:torch",
        "//executorch/backends/xnnpack/_passes:xnnpack_passes",
    ],
)
""",
        )


TARGET = 'f(\n    srcs = ["planning.py"],\n    deps = [\n        "//a:b",\n    ],\n)\n'


@pytest.mark.parametrize(
    "module, target",
    [(".named_data", "names"), (".lift", "lib"), ("", "lib"), (".xnnpack", "xnnpack")],
)
def test_the_target_is_that_of_the_module(tmp_path, module, target):
    changed = depend(tmp_path, TARGET, module=module)
    assert f'"//executorch/exir/synthesized_constants:{target}",' in changed


def test_a_module_imported_from_the_package_itself(tmp_path):
    tree = made(tmp_path, {"exir/BUCK": TARGET})
    edited = {"exir/planning.py": f"from {NAME} import xnnpack\n"}
    changed = buck_files.with_dependencies(tree, {}, edited)
    assert "synthesized_constants:xnnpack" in changed["exir/BUCK"]


def test_definitions_beside_the_build_file(tmp_path):
    made(tmp_path, {"exir/BUCK": 'load(":targets.bzl", "x")\n'})
    assert depend(tmp_path, TARGET, name="exir/targets.bzl")
    assert (tmp_path / "exir/BUCK").read_text() == 'load(":targets.bzl", "x")\n'


@pytest.mark.parametrize(
    "text",
    [
        TARGET.replace('["planning.py"]', 'glob(["*.py"])'),
        TARGET.replace("planning", "another"),
        TARGET.replace("//a:b", "//executorch/exir/synthesized_constants:lib"),
    ],
)
def test_nothing_to_do(tmp_path, text):
    assert depend(tmp_path, text) is None


def test_no_build_files_at_all(tmp_path):
    tree = made(tmp_path, {"exir/__init__.py": ""})
    edited = {"exir/planning.py": f"from {NAME}.lift import x\n"}
    assert buck_files.with_dependencies(tree, {}, edited) == {}
    new = new_files(ROOT)
    assert buck_files.with_targets(tree, new) == new


@pytest.mark.parametrize(
    "text, message",
    [
        ("f(\n    (\n", r"exir/BUCK:2: .*"),
        ("\0", r"exir/BUCK:.*: .*null bytes"),
        (
            '\nf(srcs = ["planning.py"])\n',
            "exir/BUCK:2: the target has no list of deps",
        ),
        (
            'f(srcs = ["planning.py"], deps = [])\n',
            "exir/BUCK:1: the target has no list of deps",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, message):
    with pytest.raises(PatchError, match=f"^{message}$"):
        depend(tmp_path, text)


@pytest.mark.parametrize(
    "deps, wanted",
    [
        ('["//a:b"]', '["//a:b",\n%s"{}"]'),
        ('["//a:b",]', '["//a:b",\n%s"{}",]'),
        ('["//a:b", "//z:z"]', '["//a:b", "{}",\n%s"//z:z"]'),
        ('[\n  "//a:b"\n]', '[\n  "//a:b",\n  "{}"\n]'),
        ('[\n  "//a:b",  # é\n]', '[\n  "//a:b",  # é\n  "{}",\n]'),
        ('[\n  "//a:é", "//z:z"\n]', '[\n  "//a:é", "{}",\n  "//z:z"\n]'),
    ],
)
def test_lists_of_any_form(tmp_path, deps, wanted):
    before = 'f(srcs = ["planning.py"], deps = '
    wanted = wanted.format("//executorch/exir/synthesized_constants:lib")
    indent = " " * (len(before) + 1)
    changed = depend(tmp_path, f"{before}{deps})\n")
    assert changed == before + wanted.replace("%s", indent) + ")\n"


# The targets of the package


def test_each_patch_has_the_targets_of_its_modules(tmp_path):
    tree = made(tmp_path, {"exir/BUCK": ""})
    new = buck_files.with_targets(tree, new_files(ROOT))
    modules = set()
    for patch in patches(EXECUTORCH):
        files = [PurePosixPath(path) for path in new[patch.name]]
        modules |= {p.name for p in files if p.parent == PACKAGE}
        text = new[patch.name].get("exir/synthesized_constants/BUCK")
        if text:
            assert sorted(sources(text)) == sorted(modules - {"BUCK"})
    assert "cli.py" in modules and "BUCK" not in new["tests"]


def sources(text):
    for call in ast.walk(ast.parse(text)):
        if isinstance(call, ast.keyword) and call.arg == "srcs":
            yield from ast.literal_eval(call.value)


@pytest.mark.parametrize("target", buck_files.TARGETS, ids=lambda t: t.name)
def test_a_target_depends_on_what_its_modules_import(target):
    needed = set()
    for file in (ROOT / PACKAGE).glob("*.py"):
        if buck_files.target_of(file.stem) == target.name:
            for module, name in imports(ast.parse(file.read_text())):
                needed |= labels(module, name)
    assert needed - {f":{target.name}"} == {unnamed(label) for label in target.deps}


def labels(module, name):
    """The label that a module has, without the name where upstream has one target, or
    few, for a whole directory."""
    top, *path = module.split(".")
    if top == "torch":
        return {"//caffe2:torch"}
    if module.startswith(NAME):
        return {":" + buck_files.target_of(path[2] if path[2:] else name)}
    if top != "executorch" or path[0] == "torch_patches":
        return set()
    if importlib.util.find_spec(module).submodule_search_locations:
        path.append("lib")
    return {unnamed(f"//executorch/{'/'.join(path[:-1])}:{path[-1]}")}


def unnamed(label):
    package, _, _ = label.partition(":")
    return package if package.count("/") > 3 else label


def imports(node):
    """Yields (module, name) of the imports that are run."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.ImportFrom):
        yield from ((node.module, alias.name) for alias in node.names)
    if isinstance(node, ast.Import):
        yield from ((alias.name, "") for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from imports(child)
