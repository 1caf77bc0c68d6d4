# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Decides when the edits are applied, and that it is all or none.

``import torch`` runs ``register`` (the ``torch.backends`` entry point). That only asks
to be called after ``executorch.exir`` has been imported, so that a process without
ExecuTorch pays for one small module. ``activate`` does the work: it checks the
anchors of every edited file, applies the edits to the modules that are imported, and
leaves a hook for each of the others.
"""

import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
import threading
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterable, List, Sequence, Tuple

from executorch.torch_patches import edits
from executorch.torch_patches.edit import apply_to_text
from executorch.torch_patches.errors import AnchorError, PatchError
from executorch.torch_patches.live import prepare, Prepared, Step

# package -> (lowest supported version, first version that is not)
SUPPORTED: Dict[str, Tuple[Tuple[int, int], Tuple[int, int]]] = {
    "torch": ((2, 13), (2, 14)),
    "executorch": ((1, 5), (1, 6)),
}

_lock = threading.RLock()
_active = False


@dataclass(frozen=True)
class _Target:
    """One file to edit."""

    module: str
    path: str
    source: str
    edits: Sequence[edits.Edit]

    def prepare(self, module: types.ModuleType) -> Prepared:
        return prepare(module, self.path, self.source, self.edits)


def activate() -> None:
    """Applies all edits to this process; a second call does nothing.

    Raises:
        PatchError: the installed torch or executorch is not one that the edits fit.
            Nothing was changed then.
    """
    global _active
    with _lock:
        if _active:
            return
        join_site_directories()
        targets = _find_targets()
        ready = [
            target.prepare(sys.modules[target.module])
            for target in targets
            if target.module in sys.modules
        ]
        # Set before the imports run: they load modules that call us again.
        _active = True
        try:
            _run(prepared.imports for prepared in ready)
        except BaseException:
            _active = False
            raise
        _run(prepared.changes for prepared in ready)
        _run(prepared.statements for prepared in ready)
        for target in targets:
            if target.module not in sys.modules:
                _apply_after_import(target)


def _run(groups: Iterable[Sequence[Step]]) -> None:
    for steps in groups:
        for step in steps:
            step()


def is_active() -> bool:
    """Whether the edits are applied to this process."""
    return _active


def register() -> None:
    """Entry point ``torch.backends``: see to it that ``activate`` runs when
    ``executorch.exir`` is imported. Never raises: a failure becomes a warning, since
    an exception here would make ``import torch`` fail.
    """
    try:
        import wrapt

        # The last of exir's modules to be imported: when it is complete, so is every
        # other one that has edits. ``executorch.exir`` itself may be half imported
        # now, because it is what imports torch.
        wrapt.register_post_import_hook(
            _activate_or_warn, "executorch.exir.program._program"
        )
    except Exception as error:
        _warn(error)


def _activate_or_warn(module: types.ModuleType) -> None:
    try:
        activate()
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    warnings.warn(
        f"synthesized constants are not available: {error}",
        RuntimeWarning,
        stacklevel=2,
    )


def _apply_after_import(target: _Target) -> None:
    import wrapt

    def apply(module: types.ModuleType) -> None:
        try:
            prepared = target.prepare(module)
            _run((prepared.imports, prepared.changes, prepared.statements))
        except Exception as error:
            _warn(error)

    wrapt.register_post_import_hook(apply, target.module)


def join_site_directories() -> None:
    """Makes ``executorch.exir.synthesized_constants`` importable when the installed
    executorch lives in another site directory than this package. ``executorch`` is a
    namespace package and spans both; ``executorch.exir`` is a regular one and is
    looked up in the first directory only.
    """
    ours = Path(__file__).resolve().parent.parent / "exir"
    exir = sys.modules.get("executorch.exir")
    if exir is None or importlib.util.find_spec(
        "executorch.exir.synthesized_constants"
    ):
        return
    if (ours / "synthesized_constants").is_dir():
        exir.__path__.append(str(ours))
        importlib.invalidate_caches()


def _find_targets() -> List[_Target]:
    """Reads every file that has edits and checks their anchors.

    Raises:
        PatchError: with one line for each package of the wrong version and for each
            anchor that is missing.
    """
    problems = _version_problems()
    targets = []
    for module, module_edits in edits.by_module().items():
        path = locate(module)
        if path is None:
            problems.append(f"{module} was not found{_version_of(module)}")
            continue
        source = Path(path).read_text(encoding="utf-8")
        try:
            apply_to_text(source, module_edits)
        except AnchorError as error:
            problems.append(f"{path}{_version_of(module)}: {error}")
        targets.append(_Target(module, path, source, module_edits))
    if problems:
        raise PatchError(
            "the installed packages are not the ones that the edits were made for; "
            "nothing was changed.\n  " + "\n  ".join(problems)
        )
    return targets


def _version_problems() -> List[str]:
    problems = []
    for package, (low, high) in SUPPORTED.items():
        installed = _version(package)
        release = tuple(int(p) for p in installed.split(".")[:2] if p.isdigit())
        if not low <= release < high:
            problems.append(
                f"{package} {installed or 'without version'} is installed; supported: "
                f">={'.'.join(map(str, low))},<{'.'.join(map(str, high))}"
            )
    return problems


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _version_of(module: str) -> str:
    package = module.partition(".")[0]
    return f" ({package} {_version(package) or 'without version'})"


def locate(module: str) -> "str | None":
    """Returns the path of a module's source file without importing it or its parents,
    or None if there is none."""
    if module in sys.modules:
        return sys.modules[module].__file__
    found = _find_spec(module)
    if found is None or not found.origin or not os.path.isfile(found.origin):
        return None
    return found.origin


@functools.lru_cache(maxsize=None)
def _find_spec(module: str) -> "importlib.machinery.ModuleSpec | None":
    parent, _, _ = module.rpartition(".")
    if not parent:
        return importlib.util.find_spec(module)
    search: "Iterable[str] | None"
    if parent in sys.modules:
        search = sys.modules[parent].__path__
    else:
        spec = _find_spec(parent)
        search = spec.submodule_search_locations if spec else None
    if search is None:
        return None
    return importlib.machinery.PathFinder.find_spec(module, list(search))
