# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Keeps the BUCK files of executorch in step with the series: targets for the new
package, and dependencies on them for the files that import it.

A target must not depend on itself by way of others, so ``_serialize``, which ``:lib``
needs, has a target of its own to depend on, and what needs all of exir is not in
``:lib``. Wheels have no BUCK files, and nothing is done there.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Collection, Dict, Iterator, List, Mapping, Optional, Tuple

from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.rendering.series import PACKAGE
from executorch.torch_patches.rendering.tree import read_text, Tree

_LABEL = f"//executorch/{PACKAGE}"

#: Where targets are defined; a package is a directory with one of the first two.
_BUILD_FILES = ("BUCK", "TARGETS")
_DEFINITIONS = (*_BUILD_FILES, "targets.bzl")


@dataclass(frozen=True)
class Target:
    """A library of Python modules.

    Attributes:
        name: after the colon of its label.
        deps: labels of what its modules import, sorted as buildifier does.
        modules: names of its modules; None: all that no other target has.
    """

    name: str
    deps: Tuple[str, ...]
    modules: Optional[Tuple[str, ...]] = None


TARGETS = (
    Target(
        "names",
        ("//executorch/exir:schema",),
        ("manifest", "named_data", "names", "placement"),
    ),
    Target(
        "lib",
        (
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
        ),
    ),
    Target(
        "cli",
        (
            ":lib",
            ":names",
            "//caffe2:torch",
            "//executorch/backends/xnnpack/partition:xnnpack_partitioner",
            "//executorch/exir:lib",
            "//executorch/exir:schema",
            "//executorch/exir/backend:partitioner",
            "//executorch/exir/program:lib",
        ),
        ("__main__", "cli", "listing", "measure"),
    ),
    Target(
        "xnnpack",
        (
            "//caffe2:torch",
            "//executorch/backends/xnnpack/_passes:xnnpack_passes",
        ),
        ("xnnpack",),
    ),
)

_HEAD = """\
load("@fbcode_macros//build_defs:build_file_migration.bzl", "fbcode_target")
load("@fbsource//xplat/executorch/build:runtime_wrapper.bzl", "runtime")

oncall("executorch")
"""


def target_of(module: str) -> str:
    """Returns the name of the target that has a module of the package."""
    named = {m: target.name for target in TARGETS for m in target.modules or ()}
    return named.get(module, "lib")


def package_file(modules: Collection[str]) -> str:
    """Returns the BUCK file of the package, as far as it has ``modules``."""
    blocks = [_HEAD]
    for target in TARGETS:
        sources = [f"{m}.py" for m in sorted(modules) if target_of(m) == target.name]
        if sources:
            blocks.append(
                "fbcode_target(\n"
                "    _kind = runtime.python_library,\n"
                f'    name = "{target.name}",\n'
                f"    srcs = [\n{_lines(sources)}    ],\n"
                '    visibility = ["PUBLIC"],\n'
                f"    deps = [\n{_lines(target.deps)}    ],\n"
                ")\n"
            )
    return "\n".join(blocks)


def _lines(items: Collection[str]) -> str:
    return "".join(f'        "{item}",\n' for item in items)


def with_targets(
    tree: Tree, new: Mapping[str, Mapping[str, str]]
) -> Dict[str, Dict[str, str]]:
    """Adds the BUCK file of the package to the new files of each patch that brings
    modules, if the tree has such files.

    Args:
        tree: the sources of executorch.
        new: name of the patch -> path -> text, in the order of the series.
    """
    result = {name: dict(files) for name, files in new.items()}
    if _package(tree, str(PACKAGE / "__init__.py")) is None:
        return result
    modules = set()
    for files in result.values():
        brought = {
            PurePosixPath(path).stem
            for path in files
            if PurePosixPath(path).parent == PACKAGE
        }
        modules |= brought
        if brought:
            files[str(PACKAGE / "BUCK")] = package_file(modules)
    return result


def with_dependencies(
    tree: Tree, state: Mapping[str, str], edited: Mapping[str, str]
) -> Dict[str, str]:
    """Returns the BUCK files that change when files begin to import the package.

    A target that has its files by a pattern gets no dependency: those are of backends
    that depend on exir as a whole.

    Args:
        tree: the sources before the series.
        state: path -> text of files that were changed since.
        edited: path -> text of the files that change now.

    Returns:
        Path -> text.

    Raises:
        PatchError: a file cannot be read as a BUCK file, or a target has no list of
            dependencies.
    """
    changed: Dict[str, str] = {}
    for path, text in edited.items():
        labels = sorted({f"{_LABEL}:{target_of(m)}" for m in _imported(path, text)})
        package = _package(tree, path) if labels else None
        if package is None:
            continue
        source = str(PurePosixPath(path).relative_to(package))
        for name in _DEFINITIONS:
            file = str(package / name)
            before = changed.get(file, state.get(file, read_text(tree, file)))
            after = before
            for label in labels:
                after = after and _depend(file, after, source, label)
            if after is not None and after != before:
                changed[file] = after
    return changed


def _imported(path: str, text: str) -> Iterator[str]:
    """Yields the modules of the package that a file outside of it imports."""
    package = "executorch." + ".".join(PACKAGE.parts)
    if not path.endswith(".py") or PACKAGE in PurePosixPath(path).parents:
        return
    for module, names in re.findall(
        rf"^ *from {re.escape(package)}(?:\.(\w+))? import (.*)", text, re.MULTILINE
    ):
        yield module or names


def _package(tree: Tree, path: str) -> Optional[PurePosixPath]:
    """Returns the directory whose BUCK file is to say how ``path`` is built."""
    for directory in PurePosixPath(path).parents:
        if any(tree.read(str(directory / name)) is not None for name in _BUILD_FILES):
            return directory
    return None


def _depend(file: str, text: str, source: str, label: str) -> str:
    """Returns ``text`` with ``label`` among the dependencies of each target that names
    ``source`` among its sources."""
    try:
        # What upstream writes in Starlark is Python, too.
        calls = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call)]
    except (SyntaxError, ValueError) as error:
        where = f"{file}:{getattr(error, 'lineno', 1)}"
        raise PatchError(f"{where}: {getattr(error, 'msg', error)}") from None
    changes = []
    for call in calls:
        arguments = {keyword.arg: keyword.value for keyword in call.keywords}
        if "srcs" in arguments and source in _strings(arguments["srcs"]):
            changes.append(_insertion(file, text, call, arguments.get("deps"), label))
    for at, added in sorted(filter(None, changes), reverse=True):
        text = text[:at] + added + text[at:]
    return text


def _strings(node: ast.AST) -> Dict[str, ast.Constant]:
    return {
        n.value: n
        for n in ast.walk(node)
        if isinstance(n, ast.Constant) and isinstance(n.value, str)
    }


def _insertion(
    file: str, text: str, target: ast.Call, deps: Optional[ast.expr], label: str
) -> Optional[Tuple[int, str]]:
    """Returns what to insert, and where, for ``label`` to be among the dependencies, or
    None if it is."""
    lists = [n for n in ast.walk(deps) if isinstance(n, ast.List)] if deps else []
    if not lists or not lists[0].elts:
        raise PatchError(f"{file}:{target.lineno}: the target has no list of deps")
    if deps and label in _strings(deps):
        return None
    elements: List[ast.expr] = lists[0].elts
    indent = " " * elements[0].col_offset
    for element in elements:
        if isinstance(element, ast.Constant) and _order(label) < _order(element.value):
            at = _offset(text, element.lineno, element.col_offset)
            return at, f'"{label}",\n{indent}'
    last = elements[-1]
    end = _offset(text, last.end_lineno or 0, last.end_col_offset or 0)
    comma = re.compile(r"\s*,(?:[ \t]*(?:#.*)?$)?", re.MULTILINE).match(text, end)
    if comma is None:
        return end, f',\n{indent}"{label}"'
    return comma.end(), f'\n{indent}"{label}",'


def _offset(text: str, line: int, column: int) -> int:
    """Returns the index of what ``ast`` says is at a line, from 1, and a byte in it."""
    lines = text.split("\n")
    before = "\n".join([*lines[: line - 1], ""])
    return len(before) + len(lines[line - 1].encode()[:column].decode())


def _order(label: str) -> Tuple[int, str]:
    """As buildifier sorts them: third parties, own targets, other packages."""
    kind = 2 if label.startswith("//") else 1 if label.startswith(":") else 0
    return kind, label.replace(":", "!")
