# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What an edit is, and how a list of them changes the text of one file.

Everything here is text in, text out: no module is imported and nothing is applied.
``live.py`` applies the edited text to the running process, ``rendering/`` to source
trees.
"""

import re
from dataclasses import dataclass
from typing import Iterable, Iterator, List, Optional, Tuple, Union

from executorch.torch_patches.errors import AnchorError


@dataclass(frozen=True)
class Replace:
    """Replaces a few tokens inside one function.

    Attributes:
        owner: dotted name of the function in its module, e.g. ``Verifier.check``.
        anchor: text that stands exactly once inside ``owner``.
        replacement: what stands there afterwards.
        why: one sentence for the reviewer.
        patch: the patch of the series (``rendering/series.py``) that brings it, where
            that is not the one of its file.
        since: the first release of the package that has this place, where that is not
            the lowest supported one. Older ones do without the edit.
        until: the first release that does without the edit.
        optional: whether a wheel or checkout may lack the file.
    """

    owner: str
    anchor: str
    replacement: str
    why: str
    patch: str = ""
    since: Tuple[int, int] = (0, 0)
    until: Optional[Tuple[int, int]] = None
    optional: bool = False


@dataclass(frozen=True)
class Insert:
    """Adds lines to a class body or to a module.

    What is added decides what it means for the running class: an assignment in an
    ``Enum`` is a member, an annotated assignment in a dataclass is a field, a
    ``def`` is a method or property; at module level (``owner`` is empty) it is a
    statement.

    Attributes:
        owner: dotted name of the class, or "" for the module.
        anchor: text that stands exactly once inside ``owner``.
        text: the lines to add, indented as in the file.
        why: one sentence for the reviewer.
        before: whether the lines go before the anchor instead of after it.
        live: at module level only, the statement that has the same effect in a module
            that is already imported, where ``text`` is not a statement of its own
            (an entry of a dict display).
        patch, since, until, optional: as for ``Replace``.
    """

    owner: str
    anchor: str
    text: str
    why: str
    before: bool = False
    live: str = ""
    patch: str = ""
    since: Tuple[int, int] = (0, 0)
    until: Optional[Tuple[int, int]] = None
    optional: bool = False

    @property
    def replacement(self) -> str:
        return self.text + self.anchor if self.before else self.anchor + self.text


Edit = Union[Replace, Insert]


def is_for(edit: Edit, release: Tuple[int, ...]) -> bool:
    """Returns whether a release of the package needs an edit."""
    return edit.since <= release and (edit.until is None or release < edit.until)


def may_be_missing(edits: Iterable[Edit]) -> bool:
    """Returns whether a wheel or checkout may lack the file of these edits."""
    return all(edit.optional for edit in edits)


def owner_span(source: str, owner: str) -> Tuple[int, int]:
    """Returns the half-open character range of ``owner`` in ``source``.

    The range begins at the ``def`` or ``class`` keyword and ends before the next
    definition or decorator of the same or a smaller indentation. Parsing the whole
    file would find the same range at twenty times the cost at every import.

    Raises:
        AnchorError: there is no such definition, or several.
    """
    start, end = 0, len(source)
    indent = 0
    for name in owner.split(".") if owner else ():
        matches = [m for m in _definitions(source, name, start, end) if m[0] >= indent]
        # The outermost: methods of inner classes may have the same name.
        outermost = [m for m in matches if m[0] == min(matches)[0]]
        if len(outermost) != 1:
            raise AnchorError(
                f"{len(outermost)} definitions of {owner!r} instead of one"
            )
        ((spaces, start),) = outermost
        # A pattern that begins with a character is searched for much faster than "^".
        tail = re.compile(rf"\n[ ]{{0,{spaces}}}(?:async def|def|class|@)")
        following = tail.search(source, start, end)
        end = following.start() + 1 if following else end
        indent = spaces + 1
    return start, end


def _definitions(
    source: str, name: str, start: int, end: int
) -> Iterator[Tuple[int, int]]:
    """Yields indentation and start of the line of each definition of ``name``."""
    for head in (f"def {name}", f"class {name}"):
        at = source.find(head, start, end)
        while at >= 0:
            line = source.rfind("\n", 0, at) + 1
            before, after = source[line:at], source[at + len(head) : at + len(head) + 1]
            if before.strip() in ("", "async") and not (
                after.isalnum() or after == "_"
            ):
                yield len(before) - len(before.lstrip()), line
            at = source.find(head, at + 1, end)


# Calls of imported names compile to other instructions than those of other names.
_IMPORT = re.compile(r"\n(from \S+ import (?:\([^)]*\)|.*)|import .*)")


def only(source: str, owners: Iterable[str]) -> str:
    """Returns ``source`` with blank lines for all but imports and what ``owners`` names.

    The definitions, each at its own line and in the classes that it belongs to, compile
    to what they compile to in the whole file, at a fraction of the cost.
    """
    # start in source -> (end in source, text)
    imports = _IMPORT.finditer("\n" + source)
    kept = {m.start(): (m.end() - 1, m.group(1)) for m in imports}
    for owner in owners:
        start, end = owner_span(source, owner)
        start = _first_decorator(source, start)
        kept[start] = (end, source[start:end])
        *classes, _ = owner.split(".")
        for count, name in enumerate(classes, 1):
            start, _ = owner_span(source, ".".join(classes[:count]))
            line = source[start : source.index("\n", start)]
            indent = line[: len(line) - len(line.lstrip())]
            kept.setdefault(start, (start + len(line), f"{indent}class {name}:"))
    parts, at = [], 0
    for start, (end, text) in sorted(kept.items()):
        if start >= at:  # else it is inside of what was kept
            parts += ["\n" * source.count("\n", at, start), text]
            at = end
    return "".join(parts)


def _first_decorator(source: str, start: int) -> int:
    """Returns where the decorators begin of the definition at ``start``."""
    indent = re.compile("[ ]*").match(source, start).group()  # type: ignore[union-attr]
    line = start
    while line > 0:
        end, line = line, source.rfind("\n", 0, line - 1) + 1
        text = source[line:end]
        if text.startswith(indent + "@"):
            start = line
        elif not text.startswith((indent + " ", indent + ")", indent + "#")):
            break  # else it may be a line of a decorator of several lines
    return start


def pending(source: str, edits: Iterable[Edit]) -> List[Edit]:
    """Returns those of ``edits`` that are not yet made in ``source``."""
    return [edit for edit in edits if not _is_made(source, edit)]


def _is_made(source: str, edit: Edit) -> bool:
    if edit.replacement not in source:  # so of nearly every file that is not rendered
        return False
    try:
        start, end = owner_span(source, edit.owner)
    except AnchorError:
        return False
    if source.count(edit.replacement, start, end) != 1:
        return False
    # What is left of a deletion stood there before it, too.
    return edit.anchor in edit.replacement or edit.anchor not in source[start:end]


def apply_to_text(source: str, edits: Iterable[Edit]) -> str:
    """Returns ``source`` with all ``edits`` made.

    Raises:
        AnchorError: an owner is missing, or an anchor is not found exactly once in
            it. The message names both.
    """
    changes: List[Tuple[int, int, str]] = []
    for edit in edits:
        start, end = owner_span(source, edit.owner)
        found = source.count(edit.anchor, start, end)
        if found != 1:
            raise AnchorError(
                f"anchor {edit.anchor.strip()!r} in {edit.owner or 'the module'!r} "
                f"was found {found} times instead of once"
            )
        at = source.index(edit.anchor, start, end)
        changes.append((at, at + len(edit.anchor), edit.replacement))
    changes.sort()
    for (_, end, _), (start, _, _) in zip(changes, changes[1:]):
        if start < end:
            raise AnchorError(f"two edits overlap at {source[start:end].strip()!r}")
    for start, end, replacement in reversed(changes):
        source = source[:start] + replacement + source[end:]
    return source
