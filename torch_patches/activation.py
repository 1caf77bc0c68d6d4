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

import importlib.util
import logging
import os
import sys
import threading
import types
import warnings
from typing import Callable, Dict, Iterable, Optional, TYPE_CHECKING

# The engine is imported when it is needed: this module is part of ``import torch``.
if TYPE_CHECKING:
    from executorch.torch_patches.installed import Target

OURS = "executorch.exir.synthesized_constants"

# Guards the changes. Never held while something is imported: another thread may hold
# the lock of that module and wait for this one.
_lock = threading.RLock()
_active = False
# Module -> what is still to be edited, because it was not (wholly) imported.
_later: "Dict[str, Target]" = {}

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
    done = False

    def activate_once(complete: str) -> None:
        nonlocal done
        if not done:
            _or_warn(activate, complete)
            done = True

    # The first is the last of exir's modules to be imported: when it is complete, so is
    # every other one that has edits. ``executorch.exir`` itself may be half imported now,
    # because it is what imports torch. The second is for an import after one that the
    # user interrupted: hooks are called once.
    try:
        for name in ("executorch.exir.program._program", "executorch.exir.program"):
            _after_import(name, activate_once)
    except Exception as error:
        try:
            _warn(error)
        except RuntimeWarning as warning:  # python -W error
            logging.getLogger(__name__).error(warning)


def activate(complete: str = "") -> None:
    """Applies all edits to this process. A second call applies those to modules whose
    import was still under way at the first one, and that the first one left out.

    Args:
        complete: a module that has run to its end, although its import is under way.

    Raises:
        PatchError: the installed torch or executorch is not one that the edits fit.
            Nothing was changed then.
    """
    # Packages before what is inside them: that is the order in which the import system
    # locks them for other threads.
    __import__("executorch.exir")
    _import_ours()
    if _active:
        _edit_the_rest(complete)
    else:
        _edit_all(complete)


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


def _edit_all(complete: str) -> None:
    global _active
    from executorch.torch_patches.installed import find_targets
    from executorch.torch_patches.live import load_imports
    from executorch.torch_patches.tracebacks import install

    targets = find_targets()
    for target in targets:
        load_imports(target.edits)
    now = [t for t in targets if _is_imported(t.module, complete)]
    with _lock:
        if _active:  # that was another thread, or one of the imports above
            return
        _commit(now)
        _later.update((t.module, t) for t in targets if t not in now)
        _active = True
    install()
    for name in list(_later):
        _after_import(name, _edit_the_rest)


def _edit_the_rest(complete: str) -> None:
    now = [name for name in list(_later) if _is_imported(name, complete)]
    with _lock:
        for name in now:
            if name in _later:  # else another thread was faster
                _or_warn(_commit, [_later[name]])
                del _later[name]


def _is_imported(name: str, complete: str) -> bool:
    """Waits for a module that another thread is importing, and returns whether it is
    there as a whole. It is not if this thread is importing it now."""
    if name not in sys.modules:
        return False
    importlib._bootstrap._lock_unlock_module(name)  # type: ignore[attr-defined]
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return name == complete or not getattr(spec, "_initializing", True)


def _commit(targets: "Iterable[Target]") -> None:
    from executorch.torch_patches.live import commit, prepare

    commit([prepare(sys.modules[t.module], t.path, t.source, t.edits) for t in targets])


def _after_import(name: str, hook: Callable[[str], None]) -> None:
    """Calls ``hook`` with the name of a module that has run to its end; at once and
    with "" if its import is under way or over."""
    import wrapt

    caller: Optional[int] = threading.get_ident()

    def call(module: types.ModuleType) -> None:
        hook("" if threading.get_ident() == caller else name)

    wrapt.register_post_import_hook(call, name)
    caller = None


def _or_warn(action: Callable, *args: object) -> None:
    """Calls ``action``; a failure becomes a warning, since an exception would make the
    user's import fail."""
    try:
        action(*args)
    except Exception as error:
        _warn(error)


def _warn(error: Exception) -> None:
    warnings.warn(
        f"synthesized constants are not available: {error}",
        RuntimeWarning,
        stacklevel=2,
    )
