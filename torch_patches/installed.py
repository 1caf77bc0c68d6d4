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
from executorch.torch_patches.edit import apply_to_text, is_for, may_be_missing, pending
from executorch.torch_patches.errors import AnchorError, PatchError

# package -> (lowest supported version, first version that is not)
SUPPORTED: Dict[str, Tuple[Tuple[int, int], Tuple[int, int]]] = {
    "torch": ((2, 13), (2, 15)),
    "executorch": ((1, 4), (1, 6)),
}


@dataclass(frozen=True, eq=False)
class Target:
    """One installed file with the edits that are to be made to it."""

    module: str
    path: str
    source: str
    edits: Sequence[edits.Edit]


@functools.lru_cache(maxsize=None)
def find_targets() -> Tuple[Target, ...]:
    """Reads every file that has edits and checks their anchors. Once: activation asks
    again when the imports that the edits need ask for it. Files that have all their
    edits, because they come from a rendered tree, are left out.

    Raises:
        PatchError: with one line for each package of the wrong version and for each
            anchor that is missing.
    """
    problems = _version_problems()
    if problems:  # anchors that do not fit either would tell nothing more
        raise _misfit(problems)
    targets = []
    for module, module_edits in installed_edits().items():
        package = module.partition(".")[0]
        path = locate(module)
        if path is None:
            if not may_be_missing(module_edits):
                problems.append(
                    f"{package} {_version(package)} has no source file of {module}"
                )
            continue
        source = Path(path).read_text(encoding="utf-8")
        to_do = pending(source, module_edits)
        try:
            apply_to_text(source, to_do)
        except AnchorError as error:
            problems.append(f"{package} {_version(package)}, {path}: {error}")
        if to_do:
            targets.append(Target(module, path, source, to_do))
    if problems:
        raise _misfit(problems)
    return tuple(targets)


def installed_edits() -> Dict[str, Tuple[edits.Edit, ...]]:
    """Returns the edits of each module that the installed releases have."""
    found = {}
    for module, module_edits in edits.by_module().items():
        release = parse_release(_version(module.partition(".")[0]))
        applicable = tuple(e for e in module_edits if is_for(e, release))
        if applicable:
            found[module] = applicable
    return found


def _misfit(problems: List[str]) -> PatchError:
    return PatchError(
        "the installed packages are not the ones that the edits were made for; "
        "nothing was changed, and EdgeCompileConfig has no lift_synthesized_constants."
        "\n  " + "\n  ".join(problems)
    )


def _version_problems() -> List[str]:
    problems = []
    for package, (low, high) in SUPPORTED.items():
        installed = _version(package)
        if not low <= parse_release(installed) < high:
            found = f"{package} {installed} is" if installed else f"{package} is not"
            problems.append(
                f"{found} installed; supported: "
                f">={'.'.join(map(str, low))},<{'.'.join(map(str, high))}"
            )
    return problems


def parse_release(version: str) -> Tuple[int, ...]:
    """Returns (2, 13) for "2.13.0+cpu", () for no version."""
    return tuple(int(p) for p in version.split(".")[:2] if p.isdigit())


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
