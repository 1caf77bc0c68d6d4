# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Applies edited source to modules that are already imported.

The edited definitions of a file are compiled once, at their lines in the edited file.
Each edited function that exists in the process then gets its new ``__code__``: its
identity stays, so that names bound elsewhere by ``from module import function`` see
the change too. What an edit adds to a class is taken from a run of the class's edited
body and set on the existing class (``extend.py``).

``prepare`` finds, imports and compiles what is needed and changes nothing. ``commit``
makes the changes of several modules, and takes all of them back if one fails.
"""

import __future__

import ast
import contextlib
import importlib.machinery
import io
import linecache
import os
import tokenize
import types
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, Iterator, List, Sequence, Union

from executorch.torch_patches.edit import (
    apply_to_text,
    Edit,
    Insert,
    only,
    owner_span,
    Replace,
)
from executorch.torch_patches.errors import PatchError
from executorch.torch_patches.extend import add_to_class, check_addition

# Part of the file name of edited code. It must not say executorch: torch.export looks for
# that in the file names of its callers.
MARK = "[synthesized constants]"

# Where the lines of edited code begin, or a multiple of it.
LINES = 10_000

# A step makes one change and tells the stack how to take it back.
Step = Callable[[contextlib.ExitStack], None]


@dataclass(frozen=True)
class Prepared:
    """What remains to be done to one module.

    Each list is to be run in order, for all modules before the next list of any.

    Attributes:
        names: names that the module imports from now on.
        changes: of classes, then of functions.
        statements: other statements at module level; they may use what was added.
    """

    names: List[Step]
    changes: List[Step]
    statements: List[Step]


@dataclass(frozen=True)
class _File:
    """An imported module with its text and code after the edits."""

    module: types.ModuleType
    source: str
    edited: str
    code: types.CodeType

    @property
    def globals(self) -> Dict[str, Any]:
        return vars(self.module)

    def compile(self, tree: ast.Module, down: int) -> types.CodeType:
        """Compiles a piece of the file, which stands so many lines further down in it,
        under the file's own ``__future__``."""
        ast.increment_lineno(tree, down)
        flags = self.code.co_flags & __future__.annotations.compiler_flag
        return compile(tree, self.code.co_filename, "exec", flags, dont_inherit=True)


def edited_path(path: str) -> str:
    """Returns the file name of the edited code of the file ``path``.

    No such file exists, so that tracebacks and debuggers show the edited lines and never
    those of the file on disk. It begins with ``path``, since torch's compiler goes by
    where a file is. The last part is that of ``path``: coverage tools then take the code
    for that of ``path``, and as all its lines are beyond the end of that file they say
    nothing of it, instead of failing for want of the source.
    """
    return os.path.join(path + MARK, os.path.basename(path))


def shown(source: str) -> str:
    """Returns source with its lines moved down to 10,001 and on, or to 20,001 where it
    has more than 10,000, and so on."""
    return "\n" * (-(-source.count("\n") // LINES) * LINES) + source


def prepare(
    module: types.ModuleType, path: str, source: str, edits: Iterable[Edit]
) -> Prepared:
    """Checks and compiles ``edits`` of one imported module.

    Args:
        module: the imported module.
        path: the file that it came from.
        source: the text of that file.
        edits: what to change.

    Returns:
        The steps that make the changes, not yet made.

    Raises:
        PatchError: an anchor, function or class is missing, or the edit is one that
            can't be made to a module in use. The message names which.
    """
    edits = list(edits)
    edited = shown(apply_to_text(source, edits))
    functions = [_function_of(module, e.owner) for e in edits if isinstance(e, Replace)]
    added: Dict[str, List[ast.stmt]] = {}
    for edit in edits:
        if isinstance(edit, Insert):
            added.setdefault(edit.owner, []).extend(_statements(edit))
    at_module_level = added.pop("", [])
    new = [node for node in at_module_level if isinstance(node, ast.FunctionDef)]
    owners = dict.fromkeys([*functions, *added, *(node.name for node in new)])
    file = _File(module, source, edited, _compile(edited, owners, edited_path(path)))

    changes = [_show_edited_lines(file)]
    changes += [_define(file, node) for node in new]
    changes += [_extend(file, owner, nodes) for owner, nodes in added.items()]
    for owner in dict.fromkeys(functions):
        changes += _swap_functions(file, owner)
    return Prepared(
        names=[_bind(file.globals, load_imports(edits))],
        changes=changes,
        statements=[
            _execute(file, node)
            for node in at_module_level
            if node not in new and not isinstance(node, _IMPORTS)
        ],
    )


def _compile(edited: str, owners: Iterable[str], filename: str) -> types.CodeType:
    try:
        return compile(only(edited, owners), filename, "exec", dont_inherit=True)
    except SyntaxError:  # an owner inside of an ``if`` or ``try`` at module level
        return compile(edited, filename, "exec", dont_inherit=True)


def commit(prepared: Sequence[Prepared]) -> None:
    """Makes the changes to all modules, or to none if one of them fails."""
    with contextlib.ExitStack() as undo:
        for phase in ("names", "changes", "statements"):
            for module in prepared:
                for step in getattr(module, phase):
                    step(undo)
        undo.pop_all()


_IMPORTS = (ast.Import, ast.ImportFrom)


def load_imports(edits: Iterable[Edit]) -> Dict[str, Any]:
    """Runs the imports that ``edits`` add at module level.

    Returns:
        What they import, by name. No module was changed.
    """
    nodes: List[ast.stmt] = [
        node
        for edit in edits
        if isinstance(edit, Insert) and not edit.owner
        for node in _statements(edit)
        if isinstance(node, _IMPORTS)
    ]
    namespace: Dict[str, Any] = {}
    exec(compile(ast.Module(nodes, []), "<imports of an edit>", "exec"), namespace)
    del namespace["__builtins__"]
    return namespace


def _statements(edit: Insert) -> List[ast.stmt]:
    text = edit.live or edit.text.strip("\n")
    indent = len(text) - len(text.lstrip(" "))
    if indent:  # a body of its own, so that docstrings keep their indentation
        (block,) = ast.parse("if True:\n" + text).body
        assert isinstance(block, ast.If)
        return block.body
    return ast.parse(text).body


def _bind(namespace: Dict[str, Any], names: Dict[str, Any]) -> Step:
    def step(undo: contextlib.ExitStack) -> None:
        for name, value in names.items():
            if name in namespace:
                undo.callback(namespace.__setitem__, name, namespace[name])
            else:
                undo.callback(namespace.pop, name, None)
            namespace[name] = value

    return step


def _show_edited_lines(file: _File) -> Step:
    """Makes linecache find the edited lines: now, and again when its cache is cleared."""
    text = file.edited
    loader = file.module.__loader__

    def get_source(name: str = "") -> str:
        return text

    def step(undo: contextlib.ExitStack) -> None:
        lazy = {file.code.co_filename: (get_source,)}
        _bind(linecache.cache, lazy)(undo)  # type: ignore[arg-type]
        # linecache asks the loader for the lines of a file that does not exist (PEP 302).
        # This kind of loader loads one module.
        if isinstance(loader, importlib.machinery.SourceFileLoader):
            _bind(vars(loader), {"get_source": get_source})(undo)

    return step


def _define(file: _File, node: ast.FunctionDef) -> Step:
    """A new function at module level."""
    code = _code_of(file.code, node.name)
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    definition = file.compile(ast.Module([node], []), code.co_firstlineno - first)

    def step(undo: contextlib.ExitStack) -> None:
        namespace: Dict[str, Any] = {}
        exec(definition, file.globals, namespace)
        for function in _unwrap(namespace[node.name], set()):
            if function.__code__.co_filename == code.co_filename:
                function.__code__ = code
        _bind(file.globals, namespace)(undo)

    return step


def _execute(file: _File, node: ast.stmt) -> Step:
    """A statement at module level that is neither an import nor a definition."""
    if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr)):
        raise PatchError(f"cannot add {ast.unparse(node)!r} to {file.module.__name__}")
    # Run once: there is nothing to step through.
    code = compile(
        ast.Module([node], []), "<statement of an edit>", "exec", dont_inherit=True
    )
    used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}

    def step(undo: contextlib.ExitStack) -> None:
        undo.callback(_restore_globals, file.globals, dict(file.globals))
        for name in used & file.globals.keys():
            value = file.globals[name]
            if isinstance(value, (dict, list, set)):
                undo.callback(_restore_contents, value, value.copy())
        exec(code, file.globals)

    return step


def _restore_globals(namespace: Dict[str, Any], before: Dict[str, Any]) -> None:
    for name in namespace.keys() - before.keys():
        del namespace[name]
    namespace.update(before)


def _restore_contents(value: Union[dict, list, set], before: Any) -> None:
    value.clear()
    value.extend(before) if isinstance(value, list) else value.update(before)


def _extend(file: _File, owner: str, nodes: List[ast.stmt]) -> Step:
    """What the edits add to the class ``owner``."""
    cls: Any = file.module
    for name in owner.split("."):
        cls = vars(cls).get(name)
        if not isinstance(cls, type):
            raise PatchError(f"{file.module.__name__} has no class {owner}")
    for node in nodes:
        check_addition(cls, node)
    code = _code_of(file.code, owner)

    def step(undo: contextlib.ExitStack) -> None:
        body: Dict[str, Any] = {}
        exec(code, file.globals, body)
        add_to_class(cls, body, nodes, undo)

    return step


def _code_of(code: types.CodeType, owner: str) -> types.CodeType:
    for name in owner.split("."):
        inner = [
            c
            for c in code.co_consts
            if isinstance(c, types.CodeType) and c.co_name == name
        ]
        if len(inner) != 1:
            raise PatchError(f"{len(inner)} definitions of {owner} after the edit")
        code = inner[0]
    return code


def _function_of(module: types.ModuleType, owner: str) -> str:
    """Returns the owner without the functions inside a function: these are code of the
    function that makes them."""
    holder: Any = module
    names = owner.split(".")
    for count, name in enumerate(names, 1):
        holder = vars(holder).get(name)
        if holder is None:
            break
        if not isinstance(holder, type):
            return ".".join(names[:count])
    raise PatchError(f"{module.__name__} has no function {owner or '(no name)'}")


def _swap_functions(file: _File, owner: str) -> List[Step]:
    code = _code_of(file.code, owner)
    holder: Any = file.module
    *classes, name = owner.split(".")
    for cls in classes:
        holder = vars(holder)[cls]
    files = (file.module.__file__, code.co_filename)
    functions = [
        f
        for f in _unwrap(vars(holder)[name], set())
        if f.__code__.co_name == name and f.__code__.co_filename in files
    ]
    if not functions:
        raise PatchError(f"{file.module.__name__} has no function {owner}")
    for function in functions:
        if function.__code__.co_freevars != code.co_freevars:
            raise PatchError(f"the edit of {owner} would change its closure")
    stub = None
    if _header(file.source, owner) != _header(file.edited, owner):
        header = _header(file.edited, owner)
        stub = file.compile(ast.parse(header + " pass"), code.co_firstlineno - 1)
    scope = vars(holder) if classes else {}
    return [_swap(file, function, code, stub, scope) for function in functions]


def _swap(
    file: _File,
    function: types.FunctionType,
    code: types.CodeType,
    stub: "types.CodeType | None",
    scope: Dict[str, Any],
) -> Step:
    """Gives ``function`` its new code, and what ``stub`` evaluates to if there is one:
    the defaults and annotations of its new header."""

    def step(undo: contextlib.ExitStack) -> None:
        new: Dict[str, Any] = {"__code__": code}
        if stub is not None:
            namespace = dict(scope)
            exec(stub, file.globals, namespace)
            for name in ("__defaults__", "__kwdefaults__", "__annotations__"):
                new[name] = getattr(namespace[code.co_name], name)
        for name, value in new.items():
            undo.callback(setattr, function, name, getattr(function, name))
            setattr(function, name, value)

    return step


def _header(source: str, owner: str) -> str:
    """Returns ``def ...:`` of a function, without its decorators."""
    start, end = owner_span(source, owner)
    text = source[start:end].lstrip()
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ":" and depth == 0:
                row, column = token.end
                lines = text.split("\n", row)[:row]
                return "\n".join([*lines[:-1], lines[-1][:column]])
    raise PatchError(f"{owner} has no body")


# The attributes under which wrappers of the standard library keep what they wrap.
_WRAPPED = ("__wrapped__", "__func__", "func", "fget", "fset", "fdel")


def _unwrap(obj: Any, seen: set) -> Iterator[types.FunctionType]:
    """Yields the functions that are reachable from ``obj`` through properties, static
    and class methods, partials, caches, and the closures of decorators."""
    if id(obj) in seen or isinstance(obj, type) or not _may_wrap(obj):
        return
    seen.add(id(obj))
    inner = [getattr(obj, name, None) for name in _WRAPPED]
    if isinstance(obj, types.FunctionType):
        yield obj
        for cell in obj.__closure__ or ():
            with contextlib.suppress(ValueError):  # an empty cell
                inner.append(cell.cell_contents)
    for wrapped in inner:
        yield from _unwrap(wrapped, seen)


def _may_wrap(obj: Any) -> bool:
    return callable(obj) or hasattr(type(obj), "__get__")
