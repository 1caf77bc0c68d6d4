# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Decides when the edits are applied, and that it is all or none.

``import torch`` runs ``register`` (the ``torch.backends`` entry point). That only asks
to be called after ``executorch.exir`` has been imported, so that a process without
ExecuTorch pays for this small module. ``activate`` does the work: it checks the
anchors of every edited file and applies the edits to the modules that are imported.
Each of the others is edited after its import.
"""

import functools
import importlib.machinery
import importlib.util
import logging
import os
import sys
import threading
import types
import warnings
from typing import Any, Callable, Iterable, TYPE_CHECKING

# The engine is imported when it is needed: this module is part of ``import torch``.
if TYPE_CHECKING:
    from executorch.torch_patches.installed import Target

OURS = "executorch.exir.synthesized_constants"

# Guards the changes. Never held while something is imported: another thread may hold
# the lock of that module and wait for this one.
_lock = threading.RLock()
_active = False

if hasattr(os, "register_at_fork"):
    # A process that is made while another thread makes changes would have half of them,
    # and a lock that nobody ever releases.
    os.register_at_fork(
        before=_lock.acquire,
        after_in_parent=_lock.release,
        after_in_child=_lock.release,
    )


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
        _after_import("executorch.exir.program._program", _activate_or_warn)
    except Exception as error:
        try:
            _warn(error)
        except RuntimeWarning as warning:  # python -W error
            logging.getLogger(__name__).error(warning)


def activate() -> None:
    """Applies all edits to this process: to the modules that are imported now, to each of
    the others once it is. A second call does nothing.

    Raises:
        PatchError: the installed torch or executorch is not one that the edits fit.
            Nothing was changed then.
    """
    global _active
    # Packages before what is inside them: that is the order in which the import system
    # locks them for other threads. The second one calls this function.
    __import__("executorch.exir")
    _import_ours()
    if _active:
        return
    from executorch.torch_patches.installed import find_targets
    from executorch.torch_patches.live import load_imports
    from executorch.torch_patches.tracebacks import install

    targets = find_targets()
    for target in targets:
        load_imports(target.edits)
    now = [t for t in targets if _is_imported(t.module)]
    with _lock:
        if _active:  # another thread was faster
            return
        _commit(now)
        _active = True
    install()
    for target in targets:
        if target not in now:
            _after_import(target.module, functools.partial(_edit_or_warn, target))


def _activate_or_warn() -> None:
    try:
        activate()
    except Exception as error:
        _warn(error)


def _edit_or_warn(target: "Target") -> None:
    try:
        with _lock:
            _commit([target])
    except Exception as error:
        _warn(error)


def _import_ours() -> None:
    """Imports the package of the new code.

    Another thread may be at it and wait for ``executorch.exir``, which this thread is
    importing. The package is then loaded without a lock; the other thread finds it.
    """
    try:
        __import__(OURS)
    except importlib._bootstrap._DeadlockError:  # type: ignore[attr-defined]
        spec = importlib.util.find_spec(OURS)
        module = importlib._bootstrap._load_unlocked(spec)  # type: ignore[attr-defined]
        parent, _, name = OURS.rpartition(".")
        setattr(sys.modules[parent], name, module)


def _is_imported(name: str) -> bool:
    """Waits for a module that another thread is importing, and returns whether it is
    there as a whole. It is not if this thread is importing it."""
    if name not in sys.modules:
        return False
    importlib._bootstrap._lock_unlock_module(name)  # type: ignore[attr-defined]
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return not getattr(spec, "_initializing", True)


def _commit(targets: "Iterable[Target]") -> None:
    from executorch.torch_patches.live import commit, prepare

    commit([prepare(sys.modules[t.module], t.path, t.source, t.edits) for t in targets])


def _after_import(name: str, hook: Callable[[], None]) -> None:
    """Calls ``hook`` once a module is imported as a whole, after this or a later attempt.
    An interrupt by the user waits for it."""
    import wrapt

    def at_end() -> None:
        if name not in sys.modules:  # the import failed
            _after_import(name, hook)
            return
        try:
            hook()
        except KeyboardInterrupt:
            hook()  # a moment's work, which nobody would make up for
            raise

    def call(module: types.ModuleType) -> None:
        # The module may be there by half, if another thread is importing it or if its
        # import is what this one is part of.
        _UnderWay.watch(module.__spec__, at_end)

    wrapt.register_post_import_hook(call, name)


class _UnderWay(importlib.machinery.ModuleSpec):
    """The spec of a module that is being imported. The import system sets
    ``_initializing`` to False at the end."""

    @classmethod
    def watch(cls, spec: Any, hook: Callable[[], None]) -> None:
        """Calls ``hook`` when the import is over."""
        vars(spec).setdefault("hooks", []).append(hook)
        spec.__class__ = cls
        if not spec._initializing:
            spec._initializing = False

    @property
    def _initializing(self) -> bool:
        return vars(self)["_initializing"]

    @_initializing.setter
    def _initializing(self, value: bool) -> None:
        vars(self)["_initializing"] = value
        if not value:
            self.__class__ = importlib.machinery.ModuleSpec  # type: ignore[assignment]
            for hook in vars(self).pop("hooks", ()):
                hook()


def _warn(error: Exception) -> None:
    warnings.warn(
        f"synthesized constants are not available: {error}",
        RuntimeWarning,
        stacklevel=2,
    )
