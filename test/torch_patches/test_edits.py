# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What all real edits have in common: they fit the installed packages, change what they
name and nothing else, and the process runs the code that the rendered files give."""

import ast
import importlib
import types
from pathlib import Path

# Applies the edits to this process.
import executorch.exir.synthesized_constants  # noqa: F401

import pytest
from executorch.torch_patches.edit import apply_to_text, Insert, Replace
from executorch.torch_patches.installed import find_targets
from executorch.torch_patches.live import edited_path, shown
from executorch.torch_patches.rendering.render import merge, render
from executorch.torch_patches.rendering.series import EXECUTORCH, PYTORCH, SERIES
from executorch.torch_patches.rendering.tree import Directory

TARGETS = {target.module: target for target in find_targets()}


def _definitions(code, name=""):
    """Yields name and code of all functions and classes."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            qualified = f"{name}.{inner.co_name}".lstrip(".")
            yield qualified, inner
            yield from _definitions(inner, qualified)


def _without_lines(code):
    """What of a code object is left when it moves in its file, without what is defined
    inside it."""
    constants = [
        (type(c), c) if not isinstance(c, types.CodeType) else c.co_name
        for c in code.co_consts
        # Python 3.13 keeps the first line of a class in a constant
        if not (type(c) is int and c == code.co_firstlineno)
    ]
    return (
        code.co_code,
        constants,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_cellvars,
        code.co_flags,
        code.co_argcount,
        code.co_kwonlyargcount,
    )


def _changed(before, after):
    """Returns the names of what differs; "" stands for the module itself."""
    changed = set() if _without_lines(before) == _without_lines(after) else {""}
    old, new = {}, {}
    for found, code in ((old, before), (new, after)):
        for name, inner in _definitions(code):
            found.setdefault(name, []).append(_without_lines(inner))
    return changed | {n for n in old.keys() | new.keys() if old.get(n) != new.get(n)}


def _inserted_names(edit):
    text = edit.text.strip("\n")
    body = ast.parse("if True:\n" + text if text.startswith(" ") else text)
    return {
        f"{edit.owner}.{node.name}".lstrip(".")
        for node in ast.walk(body)
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("module", TARGETS)
def test_nothing_else_in_the_file_changes(module):
    target = TARGETS[module]
    edited = apply_to_text(target.source, target.edits)
    changed = _changed(
        compile(target.source, target.path, "exec", dont_inherit=True),
        compile(edited, target.path, "exec", dont_inherit=True),
    )
    replaced = {e.owner for e in target.edits if isinstance(e, Replace)}
    extended = {e.owner for e in target.edits if isinstance(e, Insert)}
    added = set()
    for edit in target.edits:
        if isinstance(edit, Insert) and not edit.live:
            added |= _inserted_names(edit)
    headers = {owner.rpartition(".")[0] for owner in replaced}  # hold the defaults
    within = {
        o: {n for n in changed if n == o or n.startswith(o + ".")}
        for o in replaced | added
    }
    assert all(within.values()), within
    assert changed <= extended | headers | set().union(*within.values())


@pytest.fixture(name="rendered", scope="module")
def rendered_fixture():
    """Path of an installed file -> its text in a rendered tree."""
    nothing_new = {patch.name: {} for patch in SERIES}
    texts = {}
    for repository, package in ((PYTORCH, "torch"), (EXECUTORCH, "executorch")):
        path, module = next(
            (t.path, m) for m, t in TARGETS.items() if m.startswith(package + ".")
        )
        root = Path(path).parents[module.count(".") - (repository == EXECUTORCH)]
        steps = render(Directory(root), repository, nothing_new)
        for inside, content in merge(steps).items():
            texts[str(root / inside)] = content.decode()
    return texts


@pytest.mark.parametrize("module", TARGETS)
def test_the_process_runs_what_the_rendered_file_gives(module, rendered):
    target = TARGETS[module]
    text = shown(rendered[target.path])
    whole = compile(text, edited_path(target.path), "exec", dont_inherit=True)
    expected = dict(_definitions(whole))
    try:
        imported = importlib.import_module(module)
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"{module} needs what is not installed: {error}")
    live = list(_live_code(imported))
    replaced = {e.owner for e in target.edits if isinstance(e, Replace)}
    for edit in target.edits:
        if isinstance(edit, Insert) and not edit.live:
            replaced |= _inserted_names(edit)
    for name in replaced:
        assert expected[name] in live, name


def _live_code(holder, depth=0):
    """Yields the code of the functions of a module or class, with what is inside."""
    for value in list(vars(holder).values()):
        if isinstance(value, type) and depth < 2:
            yield from _live_code(value, depth + 1)
        for function in _functions(value):
            yield function.__code__
            yield from (code for _, code in _definitions(function.__code__))


def _functions(value):
    while value is not None:
        if isinstance(value, types.FunctionType):
            yield value
            for cell in value.__closure__ or ():
                if isinstance(cell.cell_contents, types.FunctionType):
                    yield from _functions(cell.cell_contents)
            return
        if isinstance(value, property):
            value = value.fget
        else:
            value = getattr(value, "__func__", None)
        if not isinstance(value, (types.FunctionType, property)):
            return


@pytest.mark.parametrize("module", TARGETS)
def test_every_edit_says_why(module):
    for edit in TARGETS[module].edits:
        assert edit.why.endswith(".") and len(edit.why) < 120, edit
