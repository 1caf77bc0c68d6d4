# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Decides when the edits are applied, and that it is all or none.

``import torch`` runs ``register`` (the ``torch.backends`` entry point). That only asks
to be called after ``executorch.exir`` has been imported, so that a process without
ExecuTorch pays for this small module. ``activate`` does the work: it checks the
anchors of every edited file, applies the edits to the modules that are imported, and
leaves a hook for each of the others.
"""

import importlib
import logging
import sys
import threading
import types
import warnings
from typing import Callable, TYPE_CHECKING

# The engine is imported when it is needed: this module is part of ``import torch``.
if TYPE_CHECKING:
    from executorch.torch_patches.installed import Target

# Guards the changes. Never held while something is imported: another thread may hold
# the lock of that module and wait for this one.
_lock = threading.RLock()
_active = False


def is_active() -> bool:
    """Whether the edits are applied to this process."""
    return _active


def register() -> None:
    """Entry point ``torch.backends``: see to it that ``activate`` runs when
    ``executorch.exir`` is imported. Never raises: a failure becomes a warning, since
    an exception here would make ``import torch`` fail.
    """
    try:
        # The last of exir's modules to be imported: when it is complete, so is every
        # other one that has edits. ``executorch.exir`` itself may be half imported
        # now, because it is what imports torch.
        _after_import("executorch.exir.program._program", lambda module: activate())
    except Exception as error:
        try:
            _warn(error)
        except RuntimeWarning as warning:  # python -W error
            logging.getLogger(__name__).error(warning)


def activate() -> None:
    """Applies all edits to this process; a second call does nothing.

    Raises:
        PatchError: the installed torch or executorch is not one that the edits fit.
            Nothing was changed then.
    """
    global _active
    # Packages before what is inside them: that is the order in which the import system
    # locks them for other threads. The second one calls this function.
    importlib.import_module("executorch.exir")
    importlib.import_module("executorch.exir.synthesized_constants")
    if _active:
        return
    from executorch.torch_patches.installed import find_targets
    from executorch.torch_patches.live import commit, load_imports, prepare

    targets = find_targets()
    for target in targets:
        load_imports(target.edits)
        if target.module in sys.modules:
            importlib.import_module(target.module)  # another thread may be at it
    with _lock:
        if _active:
            return
        imported = [t for t in targets if t.module in sys.modules]
        commit(
            [
                prepare(sys.modules[t.module], t.path, t.source, t.edits)
                for t in imported
            ]
        )
        _active = True
    for target in targets:
        if target not in imported:
            _apply_after_import(target)


def _apply_after_import(target: "Target") -> None:
    from executorch.torch_patches.live import commit, prepare

    def apply(module: types.ModuleType) -> None:
        with _lock:
            commit([prepare(module, target.path, target.source, target.edits)])

    _after_import(target.module, apply)


def _after_import(name: str, hook: Callable[[types.ModuleType], None]) -> None:
    """Calls ``hook`` once the module is imported; a failure becomes a warning, since
    an exception would make that import fail."""
    import wrapt

    def hook_or_warn(module: types.ModuleType) -> None:
        try:
            hook(module)
        except Exception as error:
            _warn(error)

    wrapt.register_post_import_hook(hook_or_warn, name)


def _warn(error: Exception) -> None:
    warnings.warn(
        f"synthesized constants are not available: {error}",
        RuntimeWarning,
        stacklevel=2,
    )
