# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""A tree of source files: read, and written as a whole or not at all."""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Protocol


class Tree(Protocol):
    """Where source files are read from, by path relative to the root of a repository."""

    def read(self, path: str) -> Optional[bytes]:
        """Returns the content of a file, or None if there is no such file."""


def read_text(tree: Tree, path: str) -> Optional[str]:
    """Returns the text of a file with ``\\n`` as the end of lines, or None."""
    content = tree.read(path)
    return None if content is None else content.decode().replace("\r\n", "\n")


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
    """Writes all files, or none if one of them cannot be written.

    Each file is replaced, never written into: what shares its data by a hard link stays
    as it is, and a reader sees the old content or the new.

    Raises:
        OSError: a file could not be written. All are as they were.
    """
    backups: List[Path] = []
    with contextlib.ExitStack() as undo:
        staged: Dict[Path, Path] = {}
        for path, content in files.items():
            # A link to a file stays one.
            target = Path(os.path.realpath(path))
            for directory in _missing(target.parent):
                directory.mkdir()
                undo.callback(directory.rmdir)
            staged[target] = _stage(target, content, undo)
        for target, new in staged.items():
            if target.exists():
                backups.append(_stage(target, target.read_bytes(), undo))
                undo.callback(os.replace, backups[-1], target)
            else:
                undo.callback(target.unlink, missing_ok=True)
            os.replace(new, target)
        undo.pop_all()
    for backup in backups:
        backup.unlink()


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
