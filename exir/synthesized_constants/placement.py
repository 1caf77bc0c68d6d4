# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Where a synthesized constant is put.

Light on purpose, as ``policy.py``: the config module imports it.
"""

import enum
import re
from dataclasses import dataclass
from typing import Any, ClassVar, Optional

#: The file in which upstream's ``external_constants`` puts weights. The Python runtime
#: opens one data file with a program, so constants go into the same one by default.
DEFAULT_TAG = "_default_external_constant"


class Where(enum.Enum):
    """The places that there are."""

    #: In the .pte.
    PROGRAM = "program"
    #: In a .ptd.
    EXTERNAL = "external"
    #: An input of the method.
    INPUT = "input"
    #: Nowhere: the ops that make the value stay in the graph.
    GRAPH = "graph"


@dataclass(frozen=True)
class Placement:
    """Where a synthesized constant is put.

    ``Placement.PROGRAM``, ``EXTERNAL``, ``INPUT`` and ``GRAPH`` are the usual ones; the
    class methods make those with options.

    Attributes:
        where: the kind of place.
        tag: name of the .ptd file, without its ending: of the constant for EXTERNAL, of
            the default value for INPUT. None is the .pte.
        named: whether the bytes can be found by name at run time: in the .pte for
            PROGRAM; for INPUT, whether its default value is stored at all.

    Raises:
        TypeError, ValueError: at construction; the message names the field.
    """

    where: Where
    tag: Optional[str] = None
    named: bool = True

    PROGRAM: ClassVar["Placement"]
    EXTERNAL: ClassVar["Placement"]
    INPUT: ClassVar["Placement"]
    GRAPH: ClassVar["Placement"]

    def __post_init__(self) -> None:
        if not isinstance(self.where, Where):
            raise TypeError(f"Placement.where must be a Where, got {self.where!r}")
        if not isinstance(self.named, bool):
            raise TypeError(f"Placement.named must be a bool, got {self.named!r}")
        _check_tag(self.where, self.tag)
        if not self.named and self.where not in (Where.PROGRAM, Where.INPUT):
            raise ValueError(
                f"Placement.named must be True for {self.where.name}, which is found "
                "by name or not stored"
            )

    @classmethod
    def program(cls, *, named: bool = True) -> "Placement":
        """In the .pte; ``named=False`` leaves its name out."""
        return cls(Where.PROGRAM, named=named)

    @classmethod
    def external(cls, tag: str = DEFAULT_TAG) -> "Placement":
        """In the file ``<tag>.ptd``."""
        return cls(Where.EXTERNAL, tag)

    @classmethod
    def input(cls, tag: Optional[str] = None, *, stored: bool = True) -> "Placement":
        """An input of the method. Its default value is in the .pte, or in
        ``<tag>.ptd``; with ``stored=False`` it is in no file."""
        return cls(Where.INPUT, tag, stored)

    def __str__(self) -> str:
        """All that it says as text; see ``parse``."""
        named = "" if self.named else " unnamed"
        return self.where.value + named + (f" {self.tag}" if self.tag else "")

    @classmethod
    def parse(cls, text: str) -> "Placement":
        """Returns the placement that ``str`` made a text of. What has a default may be
        left out: ``external`` is ``Placement.EXTERNAL``.

        Raises:
            ValueError: the text is not one.
        """
        word, *rest = text.split(" ")
        named = rest[:1] != ["unnamed"]
        tags = rest if named else rest[1:]
        places = {where.value: where for where in Where}
        if word not in places or len(tags) > 1:
            raise ValueError(f"not a placement: {text!r}")
        default = DEFAULT_TAG if word == Where.EXTERNAL.value else None
        return cls(places[word], tags[0] if tags else default, named)

    def __repr__(self) -> str:
        options = [] if self.tag in (None, DEFAULT_TAG) else [repr(self.tag)]
        if not self.named:
            options.append("unnamed" if self.where is Where.PROGRAM else "not stored")
        return f"Placement.{self.where.name}" + (
            f"({', '.join(options)})" if options else ""
        )


def _check_tag(where: Where, tag: Any) -> None:
    if tag is None:
        if where is Where.EXTERNAL:
            raise ValueError("Placement.tag must name a file for EXTERNAL, got None")
        return
    if where not in (Where.EXTERNAL, Where.INPUT):
        raise ValueError(f"Placement.tag must be None for {where.name}, got {tag!r}")
    if not isinstance(tag, str):
        raise TypeError(f"Placement.tag must be a str or None, got {tag!r}")
    if not re.fullmatch(r"[\w.-]+", tag) or set(tag) == {"."}:
        raise ValueError(
            "Placement.tag must be a file name of letters, digits, '_', '-' and '.', "
            f"got {tag!r}"
        )


Placement.PROGRAM = Placement.program()
Placement.EXTERNAL = Placement.external()
Placement.INPUT = Placement.input()
Placement.GRAPH = Placement(Where.GRAPH)
