# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Says which edits do not fit a source text, and what they may have meant."""

import ast
import difflib
import textwrap
from typing import Iterable, Iterator, List, Sequence, Set, Tuple

from executorch.torch_patches.edit import apply_to_text, Edit, owner_span, Replace
from executorch.torch_patches.errors import AnchorError

#: Lines that are less like an anchor than this are not worth a look.
CUTOFF = 0.6


def drifted(source: str, edits: Iterable[Edit]) -> Iterator[str]:
    """Yields for each edit that does not fit ``source`` a message of several lines: what
    is wrong, and the nearest candidates with their line numbers."""
    for edit in edits:
        names = in_another_form(source, edit)
        if names:
            yield f"{', '.join(names)}: added already, and changed since"
            continue
        try:
            apply_to_text(source, [edit])
        except AnchorError as error:
            lines = [str(error)]
            for ratio, number, text in candidates(source, edit):
                lines.append(f"  {ratio:4.0%} like line {number}: {text}")
            yield "\n".join(lines)


def in_another_form(source: str, edit: Edit) -> List[str]:
    """Returns the names that ``edit`` is to add to a class or a module, and that it has
    already: somebody changed the lines since they were added."""
    if isinstance(edit, Replace):
        return []
    try:
        added = _names(ast.parse(textwrap.dedent(edit.text)).body)
        body = ast.parse(source).body
    except SyntaxError:  # it adds to an expression
        return []
    for name in edit.owner.split(".") if edit.owner else ():
        classes = (n for n in body if isinstance(n, ast.ClassDef) and n.name == name)
        body = next((found.body for found in classes), [])
    return sorted(added & _names(body))


def _names(body: Sequence[ast.stmt]) -> Set[str]:
    names: Set[str] = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def candidates(source: str, edit: Edit, count: int = 3) -> List[Tuple[float, int, str]]:
    """Returns what in ``source`` is most like the anchor of ``edit``.

    Looked at are pieces of as many lines as the anchor has, inside the owner if it is
    there, else in the whole file.

    Returns:
        (likeness from 0 to 1, number of the first line, text), best first.
    """
    try:
        start, end = owner_span(source, edit.owner)
    except AnchorError:
        start, end = 0, len(source)
    anchor = edit.anchor.strip()
    height = anchor.count("\n") + 1
    first = source.count("\n", 0, start) + 1
    lines = source[start:end].split("\n")
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(anchor)
    found = []
    for row in range(len(lines) - height + 1):
        text = "\n".join(lines[row : row + height]).strip()
        matcher.set_seq1(text)
        # The first two are cheap upper bounds of the third.
        if matcher.real_quick_ratio() >= CUTOFF and matcher.quick_ratio() >= CUTOFF:
            ratio = matcher.ratio()
            if ratio >= CUTOFF:
                found.append((ratio, first + row, text))
    return sorted(found, key=lambda c: (-c[0], c[1]))[:count]
