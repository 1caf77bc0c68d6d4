# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Computes what the patches of the series make of a tree."""

import re
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

from executorch.torch_patches.edit import apply_to_text, Edit, may_be_missing, pending
from executorch.torch_patches.errors import AnchorError, PatchError
from executorch.torch_patches.installed import parse_release
from executorch.torch_patches.rendering import buck_files, schema_files
from executorch.torch_patches.rendering.drift import drifted
from executorch.torch_patches.rendering.series import (
    edits_by_path,
    EXECUTORCH,
    Patch,
    patches,
)
from executorch.torch_patches.rendering.tree import read_text, Tree


@dataclass(frozen=True)
class Step:
    """What one patch changes.

    Attributes:
        patch: the patch.
        files: path in the repository -> content afterwards, of changed and new files.
    """

    patch: Patch
    files: Mapping[str, bytes]


def merge(steps: Iterable[Step]) -> Dict[str, bytes]:
    """Returns path -> content after all steps."""
    return {path: content for step in steps for path, content in step.files.items()}


def render(
    tree: Tree,
    repository: str,
    new: Mapping[str, Mapping[str, str]],
    replace: bool = False,
) -> List[Step]:
    """Computes the series for one repository. Nothing is written.

    Args:
        tree: the sources.
        repository: PYTORCH or EXECUTORCH.
        new: the new files of each patch, see ``series.new_files``.
        replace: whether new files that are there in another form are replaced.

    Returns:
        The steps that change something: none for a tree that has all of them already.

    Raises:
        PatchError: the edits do not fit the tree. The message has one paragraph for each
            that does not, with the nearest candidates.
    """
    files = _edited_files(tree, repository)
    if repository == EXECUTORCH:
        new = buck_files.with_targets(tree, new)
    names = [patch.name for patch in patches(repository)]
    there = _there(tree, [new[name] for name in names], replace)
    state = {file.path: file.source for file in files}
    if _is_edited(files, schema_files.SCHEMA):
        schema_files.check(tree)
    steps, done = [], []
    for patch in patches(repository):
        done.append(patch.name)
        texts = {file.path: file.after(done) for file in files}
        if texts.get(schema_files.SCHEMA) != state.get(schema_files.SCHEMA):
            schema = texts.pop(schema_files.SCHEMA)
            texts.update(schema_files.regenerate(tree, schema))
        if repository == EXECUTORCH:
            texts.update(buck_files.with_dependencies(tree, state, texts))
        number = names.index(patch.name)
        texts.update(
            (p, t) for p, t in new[patch.name].items() if number > there.get(p, -1)
        )
        changed = {path: t for path, t in texts.items() if state.get(path) != t}
        state.update(changed)
        if changed:
            steps.append(Step(patch, _encode(tree, changed)))
    return steps


@dataclass(frozen=True)
class _File:
    """A file of the tree, and the edits that are still to be made to it, each with the
    name of its patch."""

    path: str
    source: str
    edits: Sequence[Tuple[str, Edit]]

    def after(self, done: Sequence[str]) -> str:
        return apply_to_text(self.source, [e for name, e in self.edits if name in done])


def _edited_files(tree: Tree, repository: str) -> List[_File]:
    files, problems = [], []
    for path, edits in edits_by_path(repository, _release(tree)).items():
        source = read_text(tree, path)
        if source is None:
            if not may_be_missing(edit for _, edit in edits):
                problems.append(f"{path}: there is no such file")
            continue
        to_do = pending(source, [edit for _, edit in edits])
        problems += [f"{path}: {problem}" for problem in _misfits(source, to_do)]
        files.append(_File(path, source, [e for e in edits if e[1] in to_do]))
    if problems:
        raise PatchError("\n".join(problems))
    return files


def _release(tree: Tree) -> Tuple[int, ...]:
    """Returns the release that a checkout or an installed package says it is."""
    for path in ("version.txt", "version.py", "torch/version.py"):
        found = re.search(r"\d+\.\d+", read_text(tree, path) or "")
        if found:
            return parse_release(found[0])
    return ()


def _misfits(source: str, edits: Sequence[Edit]) -> Iterator[str]:
    problems = list(drifted(source, edits))
    yield from problems
    if not problems:
        try:
            apply_to_text(source, edits)
        except AnchorError as error:  # each fits, but two overlap
            yield str(error)


def _is_edited(files: Sequence[_File], path: str) -> bool:
    return any(file.path == path and not file.edits for file in files)


def _there(
    tree: Tree, new: Sequence[Mapping[str, str]], replace: bool
) -> Dict[str, int]:
    """Returns for each new file that the tree has the number of the last patch that
    makes it what it is."""
    there: Dict[str, int] = {}
    problems = []
    for path in sorted(set().union(*new)):
        text = read_text(tree, path)
        same = [n for n, files in enumerate(new) if files.get(path) == text]
        if same and text is not None:
            there[path] = same[-1]
        elif text is not None and not replace:
            problems.append(
                f"{path}: there is another file of this name (see --replace)"
            )
    if problems:
        raise PatchError("\n".join(problems))
    return there


def _encode(tree: Tree, texts: Mapping[str, str]) -> Dict[str, bytes]:
    """Lines end as most of the file did in the tree."""
    encoded = {}
    for path, text in texts.items():
        before = tree.read(path) or b""
        newline = "\r\n" if 2 * before.count(b"\r\n") > before.count(b"\n") else "\n"
        encoded[path] = text.replace("\n", newline).encode()
    return encoded
