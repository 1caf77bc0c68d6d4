# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Applies edited source to modules that are already imported.

The edited text of a file is compiled once as a whole. Each edited function that
exists in the process then gets its new ``__code__``: its identity stays, so that
names bound elsewhere by ``from module import function`` see the change too. Enum
members, dataclass fields and methods are added to the existing classes.

``prepare`` finds and compiles everything and changes nothing. Whoever applies several
modules prepares all of them, then runs the imports of all of them (they can fail, and
only add names), then makes the changes, which no longer can fail. That makes it all or
none.
"""

import ast
import dataclasses
import enum
import inspect
import linecache
import types
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple

from executorch.torch_patches.edit import (
    apply_to_text,
    Edit,
    Insert,
    owner_span,
    Replace,
)
from executorch.torch_patches.errors import PatchError

# Appended to the file name of edited code, so that a traceback or debugger shows the
# edited lines (from linecache) and never the lines of the file on disk.
FILE_SUFFIX = "[executorch.torch_patches]"

Step = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What remains to be done to one module.

    Each list is to be called in order, for all modules before the next list of any.

    Attributes:
        imports: imports at module level. They add names and may raise.
        changes: of classes and functions.
        statements: other statements at module level; they may use what was added.
    """

    imports: List[Step]
    changes: List[Step]
    statements: List[Step]


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
        PatchError: an anchor, function or class is missing, or the function's
            closure would change.
    """
    edits = list(edits)
    edited = apply_to_text(source, edits)
    filename = path + FILE_SUFFIX
    whole = compile(edited, filename, "exec", dont_inherit=True)

    def show_edited_lines() -> None:
        linecache.cache[filename] = (
            len(edited),
            None,  # no modification time: linecache then never looks for the file
            edited.splitlines(keepends=True),
            filename,
        )

    imports: List[Step] = []
    statements: List[Step] = []
    for edit in edits:
        if isinstance(edit, Insert) and not edit.owner:
            body = ast.parse(edit.live or _dedent(edit.text))
            importing = isinstance(body.body[0], (ast.Import, ast.ImportFrom))
            step = _statement(module, body, filename)
            (imports if importing else statements).append(step)
    changes = [show_edited_lines]
    for edit in edits:
        if isinstance(edit, Insert) and edit.owner:
            changes += _additions(module, edit, whole)
    for owner in dict.fromkeys(e.owner for e in edits if isinstance(e, Replace)):
        code = _code_of(whole, owner)
        for function in _live_functions(module, owner):
            if function.__code__.co_freevars != code.co_freevars:
                raise PatchError(f"the edit of {owner} would change its closure")
            defaults = function.__defaults__
            if function.__code__.co_argcount != code.co_argcount:
                start, end = owner_span(edited, owner)
                defaults = _defaults(module, edited[start:end])
            changes.append(_swap(function, code, defaults))
    return Prepared(imports, changes, statements)


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


def _live_functions(module: types.ModuleType, owner: str) -> List[types.FunctionType]:
    """The function objects behind the name ``owner``, under whatever wraps them."""
    *classes, name = owner.split(".")
    holder: Any = module
    for cls in classes:
        holder = vars(holder).get(cls)
        if holder is None:
            raise PatchError(f"{module.__name__} has no {owner}")
    found = [
        f
        for f in _unwrap(vars(holder).get(name), set())
        if f.__code__.co_name == name and f.__module__ == module.__name__
    ]
    if not found:
        raise PatchError(f"{module.__name__} has no function {owner}")
    return found


def _unwrap(obj: Any, seen: set) -> Iterator[types.FunctionType]:
    """Yields the functions reachable from ``obj`` through properties, static and class
    methods, and the closures of decorators."""
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, types.FunctionType):
        yield obj
        for cell in obj.__closure__ or ():
            if cell.cell_contents is not obj and callable(cell.cell_contents):
                yield from _unwrap(cell.cell_contents, seen)
    elif isinstance(obj, property):
        for part in (obj.fget, obj.fset, obj.fdel):
            yield from _unwrap(part, seen)
    elif isinstance(obj, (staticmethod, classmethod)):
        yield from _unwrap(obj.__func__, seen)


def _defaults(module: types.ModuleType, source: str) -> "Tuple[Any, ...] | None":
    """Evaluates the default arguments of the function that ``source`` defines."""
    (node,) = ast.parse(_dedent(source)).body
    assert isinstance(node, ast.FunctionDef)
    values = [
        eval(compile(ast.Expression(d), "<defaults>", "eval"), vars(module))
        for d in node.args.defaults
    ]
    return tuple(values) or None


def _swap(
    function: types.FunctionType,
    code: types.CodeType,
    defaults: "Tuple[Any, ...] | None",
) -> Step:
    def step() -> None:
        function.__code__ = code
        function.__defaults__ = defaults

    return step


def _statement(module: types.ModuleType, body: ast.Module, filename: str) -> Step:
    code = compile(body, filename, "exec", dont_inherit=True)
    return lambda: exec(code, vars(module))


def _additions(
    module: types.ModuleType, edit: Insert, whole: types.CodeType
) -> List[Step]:
    cls: Any = module
    for name in edit.owner.split("."):
        cls = vars(cls).get(name)
        if not isinstance(cls, type):
            raise PatchError(f"{module.__name__} has no class {edit.owner}")

    # Methods first: the __init__ that a new field generates calls __post_init__ only
    # if the class has one by then.
    methods: List[Step] = []
    steps: List[Step] = []
    for node in ast.parse(_dedent(edit.text)).body:
        if isinstance(node, ast.FunctionDef):
            code = _code_of(whole, f"{edit.owner}.{node.name}")
            methods.append(_method(module, cls, node, code))
        elif isinstance(node, ast.AnnAssign) and dataclasses.is_dataclass(cls):
            steps.append(_field(module, cls, node))
        elif isinstance(node, ast.Assign) and issubclass(cls, enum.Enum):
            steps.append(_member(cls, node))
        else:
            raise PatchError(f"cannot add {ast.unparse(node)!r} to {edit.owner}")
    return methods + steps


def _dedent(text: str) -> str:
    # textwrap.dedent would be misled by blank and continuation lines of docstrings
    lines = text.strip("\n").split("\n")
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(
        line[indent:] if line[:indent].isspace() else line for line in lines
    )


def _method(
    module: types.ModuleType, cls: type, node: ast.FunctionDef, code: types.CodeType
) -> Step:
    def step() -> None:
        namespace: Dict[str, Any] = {}
        snippet = compile(
            ast.Module([node], []), code.co_filename, "exec", dont_inherit=True
        )
        exec(snippet, vars(module), namespace)
        method = namespace[node.name]
        for function in _unwrap(method, set()):
            function.__code__ = code
            function.__qualname__ = f"{cls.__qualname__}.{node.name}"
        setattr(cls, node.name, method)

    return step


def _member(cls: Any, node: ast.Assign) -> Step:
    (target,) = node.targets
    name = target.id  # type: ignore[attr-defined]

    def step() -> None:
        if name in cls.__members__:
            return
        # What ``auto()`` gives the next member of an Enum without a rule of its own.
        value = max(member.value for member in cls) + 1
        member = object.__new__(cls)
        member._name_ = name
        member._value_ = value
        member.__objclass__ = cls
        member._sort_order_ = len(cls.__members__)
        type.__setattr__(cls, name, member)
        cls._member_names_.append(name)
        cls._member_map_[name] = member
        cls._value2member_map_[value] = member

    return step


def _field(module: types.ModuleType, cls: Any, node: ast.AnnAssign) -> Step:
    name = node.target.id  # type: ignore[union-attr]
    annotation = ast.Expression(node.annotation)
    default = ast.Expression(node.value) if node.value else None
    if default is None:
        raise PatchError(f"the new field {name} of {cls.__name__} needs a default")

    def evaluate(expression: ast.Expression) -> Any:
        return eval(compile(expression, "<field>", "eval"), vars(module))

    def step() -> None:
        if name in cls.__dataclass_fields__:
            return
        params = cls.__dataclass_params__
        if "__match_args__" in vars(cls):
            del cls.__match_args__
        # The decorator reads annotations and class attributes; give it back what it
        # consumed the first time, and remove what it would otherwise keep.
        for existing in dataclasses.fields(cls):
            setattr(cls, existing.name, existing)
        cls.__annotations__[name] = evaluate(annotation)
        value = evaluate(default)
        setattr(cls, name, value)
        for method in {"__init__", "__repr__", "__eq__"} & set(vars(cls)):
            # Generated methods come from a string; one that the class wrote stays.
            code = getattr(inspect.unwrap(vars(cls)[method]), "__code__", None)
            if code is not None and code.co_filename == "<string>":
                delattr(cls, method)
        if (vars(cls).get("__doc__") or "").startswith(f"{cls.__name__}("):
            cls.__doc__ = None
        dataclasses.dataclass(  # type: ignore[call-overload]
            cls,
            init=params.init,
            repr=params.repr,
            eq=params.eq,
            order=params.order,
            unsafe_hash=params.unsafe_hash,
            frozen=params.frozen,
        )
        if isinstance(value, dataclasses.Field):
            # Objects made before the edit have no attribute of their own.
            missing = dataclasses.MISSING
            if value.default is missing and value.default_factory is not missing:
                setattr(cls, name, None)

    return step
