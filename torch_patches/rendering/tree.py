# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""A tree of source files: read, and written as a whole or not at all."""

import contextlib
import os
import signal
import tempfile
import threading
from pathlib import Path
from typing import (
    Any,
    ContextManager,
    Dict,
    Iterator,
    List,
    Mapping,
    Optional,
    Protocol,
)

from executorch.torch_patches.errors import PatchError


class Tree(Protocol):
    """Where source files are read from, by path relative to the root of a repository."""

    def read(self, path: str) -> Optional[bytes]:
        """Returns the content of a file, or None if there is no such file."""


def read_text(tree: Tree, path: str) -> Optional[str]:
    """Returns the text of a file with ``\\n`` as the end of lines, or None.

    Raises:
        PatchError: the file is not UTF-8.
    """
    content = tree.read(path)
    try:
        return None if content is None else content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise PatchError(f"{path}: {error.reason} (it is not UTF-8)") from None


class Directory:
    """The files in a directory, whether under version control or not."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> Optional[bytes]:
        try:
            return (self.root / path).read_bytes()
        except FileNotFoundError:
            return None


def write(files: Mapping[Path, bytes]) -> None:
    """Writes all files, in their order, or none if one of them cannot be written.

    Each file is replaced, never written into: what shares its data by a hard link stays
    as it is, and a reader sees the old content or the new.

    Raises:
        OSError: a file could not be written. All are as they were, as after any other
            exception.
    """
    undo = contextlib.ExitStack()
    try:
        backups = _replace(files, undo)
    except BaseException:
        with _uninterrupted():
            undo.close()
        raise
    with _uninterrupted():
        for backup in backups:
            backup.unlink()


def _replace(files: Mapping[Path, bytes], undo: contextlib.ExitStack) -> List[Path]:
    """Replaces files, and returns the copies that were made of them."""
    staged: Dict[Path, Path] = {}
    # A link to a file stays one; two of them may be to the same.
    targets = {Path(os.path.realpath(path)): files[path] for path in files}
    for target, content in targets.items():
        for directory in _missing(target.parent):
            directory.mkdir()
            undo.callback(directory.rmdir)
        staged[target] = _stage(target, content, undo)
    backups: List[Path] = []
    for target, new in staged.items():
        if target.exists():
            backups.append(_stage(target, target.read_bytes(), undo))
            undo.callback(os.replace, backups[-1], target)
        else:
            undo.callback(target.unlink, missing_ok=True)
        os.replace(new, target)
    return backups


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets the signals that end a process raise KeyboardInterrupt, so that ``write``
    undoes what it did. In other threads than the main one nothing changes."""
    with _handling(_interrupt):
        yield


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _uninterrupted() -> ContextManager[None]:
    return _handling(signal.SIG_IGN)


@contextlib.contextmanager
def _handling(handler: Any) -> Iterator[None]:
    names = ("SIGINT", "SIGTERM", "SIGHUP")  # the last is not everywhere
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        numbers = []
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _stage(target: Path, content: bytes, undo: contextlib.ExitStack) -> Path:
    """Writes ``content`` beside ``target``, with the mode of ``target``."""
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    undo.callback(Path(name).unlink, missing_ok=True)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.chmod(name, mode)
    return Path(name)


def _missing(directory: Path) -> List[Path]:
    """Returns the directories to make for ``directory`` to exist, outermost first."""
    missing = [d for d in [directory, *directory.parents] if not d.exists()]
    return missing[::-1]
