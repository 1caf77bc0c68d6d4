# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Edits of text: where an owner begins and ends, and what a list of edits makes."""

import textwrap

import pytest

from executorch.torch_patches.edit import (
    apply_to_text,
    Insert,
    only,
    owner_span,
    pending,
    Replace,
)
from executorch.torch_patches.errors import AnchorError

SOURCE = textwrap.dedent(
    '''
    import os


    def first(x):
        return x + 1


    @decorated
    def second(x):
        def inner(y):
            return y + 1

        return inner(x) + 1


    class Outer:
        """Not a definition: def method(self)."""

        async def method(self):
            return 1

        @property
        def value(self):
            return 2

        @value.setter
        def value(self, new):
            self.new = new

        class Inner:
            def method(self):
                return 3

    LAST = 1
    '''
)


def _span(owner):
    start, end = owner_span(SOURCE, owner)
    return SOURCE[start:end].strip()


def _replace(owner, anchor, replacement=""):
    return Replace(owner=owner, anchor=anchor, replacement=replacement, why="test")


def test_a_span_ends_before_the_next_definition_and_its_decorators():
    assert _span("first") == "def first(x):\n    return x + 1"
    assert _span("Outer.method") == "async def method(self):\n        return 1"
    assert (
        _span("Outer.Inner.method")
        == "def method(self):\n            return 3\n\nLAST = 1"
    )
    assert _span("second.inner").startswith("def inner(y):")
    assert owner_span(SOURCE, "") == (0, len(SOURCE))


@pytest.mark.parametrize(
    "owner, message",
    [
        ("third", "0 definitions of 'third'"),
        ("Outer.missing", "0 definitions of 'Outer.missing'"),
        ("firs", "0 definitions of 'firs'"),
        ("Outer.value", "2 definitions of 'Outer.value'"),
    ],
)
def test_an_owner_must_be_one_definition(owner, message):
    with pytest.raises(AnchorError, match=message):
        owner_span(SOURCE, owner)


def test_an_anchor_counts_inside_its_owner_only():
    edited = apply_to_text(SOURCE, [_replace("first", "x + 1", "x + 2")])
    assert edited == SOURCE.replace("return x + 1", "return x + 2")


def test_lines_go_before_or_after_the_anchor():
    after = Insert(owner="", anchor="import os\n", text="import re\n", why="test")
    before = Insert(
        owner="", anchor="import os\n", text="import io\n", why="test", before=True
    )
    assert "import os\nimport re\n" in apply_to_text(SOURCE, [after])
    assert "import io\nimport os\n" in apply_to_text(SOURCE, [before])


@pytest.mark.parametrize(
    "owner, anchor, found", [("first", "y + 1", 0), ("second", "+ 1", 2)]
)
def test_an_anchor_that_is_not_there_once_is_named(owner, anchor, found):
    message = (
        rf"anchor '{anchor.replace('+', '[+]')}' in '{owner}' was found {found} times"
    )
    with pytest.raises(AnchorError, match=message):
        apply_to_text(SOURCE, [_replace(owner, anchor)])


def test_edits_may_touch_but_not_overlap():
    touching = [_replace("first", "x + ", "x - "), _replace("first", "1", "2")]
    assert "return x - 2" in apply_to_text(SOURCE, touching)
    overlapping = [_replace("first", "x + "), _replace("first", "+ 1")]
    with pytest.raises(AnchorError, match="two edits overlap"):
        apply_to_text(SOURCE, overlapping)


def test_the_order_of_edits_does_not_matter():
    edits = [
        _replace("first", "return x", "return -x"),
        _replace("Outer.Inner.method", "3", "4"),
        _replace("second.inner", "y + 1", "y + 5"),
    ]
    assert apply_to_text(SOURCE, edits) == apply_to_text(SOURCE, edits[::-1])


def test_only_the_owners_are_kept_each_at_its_line():
    text = only(SOURCE, ["second", "Outer.Inner.method"])
    assert text.count("\n") == SOURCE.count("\n")
    assert [line for line in text.splitlines() if line] == [
        "import os",
        "@decorated",
        "def second(x):",
        "    def inner(y):",
        "        return y + 1",
        "    return inner(x) + 1",
        "class Outer:",
        "    class Inner:",
        "        def method(self):",
        "            return 3",
        "LAST = 1",
    ]
    assert all(a == b for a, b in zip(SOURCE.splitlines(), text.splitlines()) if b)
    assert only(SOURCE, []).split() == ["import", "os"]


def test_decorators_of_several_lines_are_kept():
    source = textwrap.dedent(
        """
        from typing import (
            Any,
        )

        def before():
            pass
        @first
        # why
        @second(
            1,
        )
        def f():
            pass

        @other
        class C(object):
            x = 1

            def g(self):
                pass
            @property
            def h(self):
                pass
        """
    )
    assert only(source, ["f", "C.h"]) == source.replace(
        "def before():\n    pass", "\n"
    ).replace("@other\nclass C(object):\n    x = 1", "\nclass C:\n").replace(
        "    def g(self):\n        pass\n", "\n\n"
    )


@pytest.mark.parametrize(
    "edit",
    [
        Replace("f", "one", "two", "Test."),
        Replace("f", "return one", "return", "Test."),
        Replace("f", "one", "one + one", "Test."),
        Insert("", "import a\n", "import b\n", "Test."),
        Insert("", "def f", "# f\n", "Test.", before=True),
    ],
)
def test_an_edit_is_pending_until_it_is_made(edit):
    source = "import a\ndef f():\n    return one\ndef g():\n    return two\n"
    assert pending(source, [edit]) == [edit]
    assert pending(apply_to_text(source, [edit]), [edit]) == []
