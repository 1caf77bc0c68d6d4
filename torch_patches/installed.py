# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Finds the files of the installed torch and executorch that have edits, and checks
that the edits fit them. Nothing is imported or changed."""

import functools
import importlib.metadata
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from executorch.torch_patches import edits
from executorch.torch_patches.edit import apply_to_text
from executorch.torch_patches.errors import AnchorError, PatchError

# package -> (lowest supported version, first version that is not)
SUPPORTED: Dict[str, Tuple[Tuple[int, int], Tuple[int, int]]] = {
    "torch": ((2, 13), (2, 14)),
    "executorch": ((1, 5), (1, 6)),
}


@dataclass(frozen=True, eq=False)
class Target:
    """One installed file with its edits."""

    module: str
    path: str
    source: str
    edits: Sequence[edits.Edit]


@functools.lru_cache(maxsize=None)
def find_targets() -> Tuple[Target, ...]:
    """Reads every file that has edits and checks their anchors. Once: activation asks
    again when the imports that the edits need ask for it.

    Raises:
        PatchError: with one line for each package of the wrong version and for each
            anchor that is missing.
    """
    problems = _version_problems()
    targets = []
    for module, module_edits in edits.by_module().items():
        package = module.partition(".")[0]
        if not _version(package):
            continue  # that it is not installed is among the problems
        path = locate(module)
        if path is None:
            problems.append(
                f"{package} {_version(package)} has no source file of {module}"
            )
            continue
        source = Path(path).read_text(encoding="utf-8")
        try:
            apply_to_text(source, module_edits)
        except AnchorError as error:
            problems.append(f"{package} {_version(package)}, {path}: {error}")
        targets.append(Target(module, path, source, module_edits))
    if problems:
        raise PatchError(
            "the installed packages are not the ones that the edits were made for; "
            "nothing was changed.\n  " + "\n  ".join(problems)
        )
    return tuple(targets)


def _version_problems() -> List[str]:
    problems = []
    for package, (low, high) in SUPPORTED.items():
        installed = _version(package)
        release = tuple(int(p) for p in installed.split(".")[:2] if p.isdigit())
        if not low <= release < high:
            problems.append(
                f"{package} {installed or '(none)'} is installed; supported: "
                f">={'.'.join(map(str, low))},<{'.'.join(map(str, high))}"
            )
    return problems


@functools.lru_cache(maxsize=None)
def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def locate(module: str) -> Optional[str]:
    """Returns the path of a module's source file without importing it or its parents,
    or None if there is none."""
    if module in sys.modules:
        path = sys.modules[module].__file__ or ""
        return path if path.endswith(".py") else None
    parent, names = module, list[str]()
    while parent not in sys.modules and "." in parent:
        parent, _, name = parent.rpartition(".")
        names.insert(0, name)
    if parent in sys.modules:
        search = sys.modules[parent].__path__
    else:
        spec = importlib.util.find_spec(parent)
        search = (spec and spec.submodule_search_locations) or []
    for directory in search:
        for end in (".py", "/__init__.py"):
            path = os.path.join(directory, *names) + end
            if os.path.isfile(path):
                return path
    return None
