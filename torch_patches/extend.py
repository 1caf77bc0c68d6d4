# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Adds enum members, dataclass fields, methods and attributes to a class in use.

The new definitions come from a run of the class's edited body in a namespace of its
own. So defaults, decorators, ``super()``, order and line numbers are what they would be
had the class been written that way.
"""

import ast
import contextlib
import dataclasses
import enum
import inspect
from typing import Any, Callable, Dict, List

from executorch.torch_patches.errors import PatchError


def check_addition(cls: type, node: ast.stmt) -> None:
    """Raises PatchError if ``add_to_class`` can't add what ``node`` defines."""
    what = f"cannot add {_first_line(node)!r} to {cls.__qualname__}: "
    if not isinstance(node, (ast.FunctionDef, ast.Assign, ast.AnnAssign)):
        raise PatchError(what + "it is no method, field, member or attribute")
    if isinstance(node, ast.FunctionDef):
        return
    if isinstance(node, ast.Assign) and issubclass(cls, enum.Enum):
        if issubclass(cls, enum.Flag):
            raise PatchError(what + "members of a Flag combine")
        if hasattr(cls, "__new_member__") or cls.__init__ not in (
            object.__init__,
            enum.Enum.__init__,  # type: ignore[misc]
        ):
            raise PatchError(what + "the Enum makes its members itself")
    elif "__slots__" in vars(cls):
        raise PatchError(what + "the class has __slots__")
    if isinstance(node, ast.AnnAssign) and dataclasses.is_dataclass(cls):
        if node.value is None:
            raise PatchError(what + "the new field needs a default")
        if any(f.kw_only for f in _own_fields(cls)):
            raise PatchError(what + "the class has keyword-only fields")


def add_to_class(
    cls: type,
    body: Dict[str, Any],
    nodes: List[ast.stmt],
    undo: contextlib.ExitStack,
) -> None:
    """Adds what ``nodes`` define to ``cls``.

    Args:
        cls: the class.
        body: the namespace of the class's edited body after a run.
        nodes: the statements of the body that are new.
        undo: gets the way back.
    """
    names = dict.fromkeys(name for node in nodes for name in _defined(node))
    fields = [n.target.id for n in nodes if isinstance(n, ast.AnnAssign)]  # type: ignore
    _remember(cls, undo)
    if "__classcell__" in body:  # what super() in a new method refers to
        body["__classcell__"].cell_contents = cls
    if fields:
        cls.__annotations__ = body["__annotations__"]
    for name in names:
        value = body[name]
        if issubclass(cls, enum.Enum) and not inspect.isroutine(value):
            _add_member(cls, name, value)
            continue
        setattr(cls, name, value)
        if hasattr(type(value), "__set_name__"):
            value.__set_name__(cls, name)
    if "__dataclass_fields__" in vars(cls):
        _decorate_again(cls, undo)
        for name in fields:
            field = cls.__dataclass_fields__[name]  # type: ignore[attr-defined]
            if field.default_factory is not dataclasses.MISSING:
                setattr(cls, name, _LateDefault(name, field.default_factory))


def _first_line(node: ast.stmt) -> str:
    return ast.unparse(node).partition("\n")[0]


def _defined(node: ast.stmt) -> List[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]  # type: ignore
    return [target.id for target in targets]  # type: ignore[attr-defined]


def _remember(cls: type, undo: contextlib.ExitStack) -> None:
    """Lets ``undo`` give ``cls`` the attributes back that it has now."""
    before = dict(vars(cls))

    def restore() -> None:
        # Past the metaclass: that of Enum protects the members.
        for name in vars(cls).keys() - before.keys():
            type.__delattr__(cls, name)
        for name, value in before.items():
            if vars(cls).get(name) is not value:
                type.__setattr__(cls, name, value)

    undo.callback(restore)


def _add_member(cls: Any, name: str, value: Any) -> None:
    if name in cls.__members__:
        return
    values = [member.value for member in cls]
    if isinstance(value, enum.auto):
        value = cls._generate_next_value_(name, 1, len(values), values)
    if value in values:
        raise PatchError(f"{cls.__qualname__} has the value {value!r} already")
    kind = cls._member_type_
    member = object.__new__(cls) if kind is object else kind.__new__(cls, value)
    member._name_ = name
    member._value_ = value
    member.__objclass__ = cls
    member._sort_order_ = len(values)
    new = {
        name: member,
        "_member_names_": [*cls._member_names_, name],
        "_member_map_": {**cls._member_map_, name: member},
        "_value2member_map_": {**cls._value2member_map_, value: member},
    }
    if hasattr(cls, "_hashable_values_"):  # late releases of Python 3.12 and 3.13
        new["_hashable_values_"] = [*cls._hashable_values_, value]
    for attribute, content in new.items():
        type.__setattr__(cls, attribute, content)


def _own_fields(cls: Any) -> List[dataclasses.Field]:
    own = vars(cls).get("__annotations__", {})
    return [f for f in dataclasses.fields(cls) if f.name in own]


def _decorate_again(cls: Any, undo: contextlib.ExitStack) -> None:
    """Lets ``dataclass`` make the methods of ``cls`` and of its subclasses anew, after a
    change of its annotations and attributes."""
    if "__slots__" in vars(cls):
        raise PatchError(f"the dataclass {cls.__qualname__} has __slots__")
    _remember(cls, undo)
    match_args = vars(cls).get("__match_args__")
    positional = [f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only]
    if match_args == tuple(positional):
        del cls.__match_args__
    # The decorator consumed the Field objects the first time: give them back.
    for field in _own_fields(cls):
        setattr(cls, field.name, field)
    for name, value in list(vars(cls).items()):
        # Generated methods come from a string; one that the class wrote stays.
        code = (
            getattr(inspect.unwrap(value), "__code__", None)
            if callable(value)
            else None
        )
        if code is not None and code.co_filename == "<string>":
            delattr(cls, name)
    if (vars(cls).get("__doc__") or "").startswith(f"{cls.__name__}("):
        cls.__doc__ = None  # generated too
    params = cls.__dataclass_params__
    dataclasses.dataclass(
        cls,
        init=params.init,
        repr=params.repr,
        eq=params.eq,
        order=params.order,
        unsafe_hash=params.unsafe_hash,
        frozen=params.frozen,
        match_args=match_args is not None,  # type: ignore[call-overload]
    )
    for subclass in cls.__subclasses__():
        if "__dataclass_fields__" in vars(subclass):
            _decorate_again(subclass, undo)


class _LateDefault:
    """The attribute of an object that was made before its class got the field: a value
    from the default factory, made when it is first asked for."""

    def __init__(self, name: str, factory: Callable[[], Any]) -> None:
        self.name = name
        self.factory = factory

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:  # as for any field without a default value
            raise AttributeError(self.name)
        return instance.__dict__.setdefault(self.name, self.factory())
