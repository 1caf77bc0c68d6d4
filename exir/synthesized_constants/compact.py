# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Compact values: the smallest tensor that broadcasts to a value.

A value of shape ``[1, 512, 8192]`` with all elements equal is a tensor of shape
``[1, 1, 1]`` beside that shape. Ops that can work on the small tensor do; nothing here
allocates the large one.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch

#: A dimension: a number, or a symbol of a dynamic shape.
Dim = Union[int, torch.SymInt]


@dataclass(frozen=True)
class Form:
    """A value without its elements.

    Attributes:
        shape: of the value.
        dtype: of the value; None for several values.
        data_shape: shape of the compact tensor, or of a larger one that broadcasts to
            the value too; () for several values.
        uniform: whether all elements are known to be equal in all bits.
    """

    shape: Tuple[Any, ...]
    dtype: Optional[torch.dtype]
    data_shape: Tuple[int, ...]
    uniform: bool

    @property
    def nbytes(self) -> int:
        """Bytes of a tensor of sizes ``data_shape``; 0 for several values."""
        itemsize = self.dtype.itemsize if self.dtype is not None else 0
        return math.prod(self.data_shape) * itemsize

    def without_elements(self) -> "CompactValue":
        """Returns a compact value on the meta device, to see what ops make of sizes."""
        data = torch.empty(self.data_shape, dtype=self.dtype, device="meta")
        return CompactValue(data, self.shape)


@dataclass(frozen=True, eq=False)
class CompactValue:
    """A tensor known at compile time.

    Attributes:
        data: contiguous tensor that owns its bytes; each dimension is 1 or that of
            ``shape``.
        shape: shape of the value.
    """

    data: torch.Tensor
    shape: Tuple[Dim, ...]

    @property
    def uniform(self) -> bool:
        """Whether all elements are equal in all bits. A value without elements is
        not: there is nothing to fill with."""
        return self.data.numel() == 1

    @property
    def form(self) -> Form:
        """The value without its elements."""
        return Form(self.shape, self.data.dtype, tuple(self.data.shape), self.uniform)

    @property
    def static(self) -> bool:
        """Whether the shape is known."""
        return all(isinstance(d, int) for d in self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the compact tensor."""
        return self.data.numel() * self.data.element_size()

    def view(self) -> torch.Tensor:
        """Returns the value as a view of the compact tensor; costs no memory.

        Raises:
            ValueError: the shape is not static.
        """
        if not self.static:
            raise ValueError(f"the shape {self.shape} is not static")
        return self.data.expand(self.shape)

    def with_dims(self, dims: Sequence[int]) -> torch.Tensor:
        """Returns the value broadcast to ``dims``, of which each is the compact or
        the full size, as a view."""
        return self.data.expand(tuple(dims))


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor's elements as integers of the same size, for comparisons in
    which NaN equals itself and -0.0 differs from 0.0. Complex128 gets one more
    dimension of size 2."""
    if tensor.dtype == torch.complex128:
        tensor = torch.view_as_real(tensor)
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.view(integer[tensor.element_size()])


def fill_value(tensor: torch.Tensor) -> Union[bool, int, float, complex, None]:
    """Returns the element of a tensor whose elements are equal in all bits, else
    None."""
    if tensor.numel() == 0:
        return None
    small = _without_equal_slices(tensor)
    return small.item() if small.numel() == 1 else None


def compress(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the smallest tensor that broadcasts to ``tensor``, with its rank.

    Dimensions along which all slices are equal in all bits become 1. The result is
    contiguous and owns its bytes; it is ``tensor`` itself if that is so already.
    """
    return owned(_without_equal_slices(tensor))


def owned(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor, or a copy if it is not contiguous or is a part of more memory,
    which it would keep alive."""
    tensor = tensor.contiguous()
    size = tensor.numel() * tensor.element_size()
    return tensor if tensor.untyped_storage().nbytes() == size else tensor.clone()


def _without_equal_slices(tensor: torch.Tensor) -> torch.Tensor:
    """A view with one slice for each dimension along which all are equal."""
    if tensor.numel() == 0:
        return tensor
    for dim in range(tensor.dim()):
        size = tensor.shape[dim]
        if size == 1:
            continue
        first = tensor.narrow(dim, 0, 1)
        # The second slice alone settles it in most cases.
        if tensor.stride(dim) == 0 or (
            _equal_bits(first, tensor.narrow(dim, 1, 1))
            and _equal_bits(first.expand(tensor.shape), tensor)
        ):
            tensor = first
    return tensor


def _equal_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape are equal in all bits; allocates nothing."""
    return a.dtype == b.dtype and torch.equal(bits(a), bits(b))


# --- Ops on compact values ---------------------------------------------------------

Rule = Callable[..., Optional[torch.Tensor]]
_RULES: Dict[str, Rule] = {}


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def add(rule: Rule) -> Rule:
        for name in names:
            _RULES[f"aten::{name}"] = rule
            _RULES[f"aten::{name}_copy"] = rule
        return rule

    return add


def move(
    name: str, value: CompactValue, shape: Tuple[Dim, ...], args: Sequence[Any]
) -> Optional[torch.Tensor]:
    """Applies an op that only moves elements to the compact form of its operand.

    Args:
        name: of the op, e.g. ``"aten::expand_copy"``.
        value: its first operand.
        shape: shape of its result.
        args: its other arguments, in the schema's order.

    Returns:
        The compact form of the result, or None if the op needs the value in full.
    """
    if value.uniform:
        return value.data.reshape([1] * len(shape)).clone()
    rule = _RULES.get(name)
    if rule is None:
        return None
    return rule(value, shape, *args)


@_rule("alias", "detach", "lift_fresh", "lift")
def _same(value: CompactValue, shape: Tuple[Dim, ...], *_: Any) -> torch.Tensor:
    return value.data


@_rule("expand")
def _expand(
    value: CompactValue, shape: Tuple[Dim, ...], *_: Any
) -> Optional[torch.Tensor]:
    return value.data.reshape(
        [1] * (len(shape) - value.data.dim()) + [*value.data.shape]
    )


@_rule("unsqueeze")
def _unsqueeze(
    value: CompactValue, shape: Tuple[Dim, ...], dim: int
) -> Optional[torch.Tensor]:
    return value.data.unsqueeze(dim)


@_rule("squeeze")
def _squeeze(
    value: CompactValue, shape: Tuple[Dim, ...], dims: Any = None, *_: Any
) -> Optional[torch.Tensor]:
    rank = len(value.shape)
    if dims is None:
        chosen = set(range(rank))
    else:
        chosen = {d % rank for d in ([dims] if isinstance(dims, int) else dims) if rank}
    # By the logical size: a compact dimension of size 1 may stand for a larger one.
    kept = [
        size
        for i, size in enumerate(value.data.shape)
        if not (i in chosen and value.shape[i] == 1)
    ]
    return value.data.reshape(kept)


@_rule("permute")
def _permute(
    value: CompactValue, shape: Tuple[Dim, ...], dims: Sequence[int]
) -> Optional[torch.Tensor]:
    return value.data.permute(list(dims))


@_rule("transpose")
def _transpose(
    value: CompactValue, shape: Tuple[Dim, ...], dim0: int, dim1: int
) -> Optional[torch.Tensor]:
    return value.data.transpose(dim0, dim1)


@_rule("t")
def _t(value: CompactValue, shape: Tuple[Dim, ...]) -> Optional[torch.Tensor]:
    return value.data.t()


@_rule("select")
def _select(
    value: CompactValue, shape: Tuple[Dim, ...], dim: int, index: Any
) -> Optional[torch.Tensor]:
    if value.data.shape[dim] == 1:
        index = 0
    return value.data.select(dim, index) if isinstance(index, int) else None


@_rule("slice")
def _slice(
    value: CompactValue,
    shape: Tuple[Dim, ...],
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: Any = 1,
) -> Optional[torch.Tensor]:
    dim = dim % len(value.shape)
    if value.data.shape[dim] == 1 and value.shape[dim] != 1 and shape[dim] != 0:
        return value.data
    if not all(isinstance(x, (int, type(None))) for x in (start, end, step)):
        return None
    return torch.ops.aten.slice.Tensor(value.data, dim, start, end, step)


@_rule("flip")
def _flip(
    value: CompactValue, shape: Tuple[Dim, ...], dims: Sequence[int]
) -> Optional[torch.Tensor]:
    return value.data.flip(list(dims))  # along a dimension of size 1 it does nothing


@_rule("repeat", "tile")
def _repeat(
    value: CompactValue, shape: Tuple[Dim, ...], repeats: Sequence[Any]
) -> Optional[torch.Tensor]:
    if not all(isinstance(r, int) for r in repeats):
        return None
    rank = max(len(shape), len(repeats))
    repeats = [1] * (rank - len(repeats)) + list(repeats)
    data = value.data.reshape([1] * (rank - value.data.dim()) + [*value.data.shape])
    counts = [1 if size == 1 and r > 0 else r for size, r in zip(data.shape, repeats)]
    return data.repeat(counts)


@_rule("view", "reshape", "_unsafe_view", "_reshape")
def _view(
    value: CompactValue, shape: Tuple[Dim, ...], *_: Any
) -> Optional[torch.Tensor]:
    """Works where each group of dimensions that is merged or split is either wholly
    compact or wholly full."""
    if not value.static or not all(isinstance(d, int) for d in shape):
        return None
    if 0 in shape:
        return None
    compact: List[int] = []
    for source, target in _groups(value.shape, shape):
        sizes = [value.data.shape[i] for i in source]
        if all(size == 1 for size in sizes):
            compact += [1] * len(target)
        elif sizes == [value.shape[i] for i in source]:
            compact += [int(shape[i]) for i in target]
        else:
            return None
    return value.data.reshape(compact)


def _groups(
    source: Sequence[Dim], target: Sequence[Dim]
) -> List[Tuple[List[int], List[int]]]:
    """Pairs the dimensions of two shapes of one size into the smallest runs with
    equal products: ``[2, 3, 4] -> [6, 2, 2]`` gives ``([0, 1], [0]), ([2], [1, 2])``.
    """
    groups = []
    i = j = 0
    while i < len(source) or j < len(target):
        left: List[int] = []
        right: List[int] = []
        size_left = size_right = 1
        if i < len(source):
            left, size_left, i = [i], int(source[i]), i + 1
        if j < len(target):
            right, size_right, j = [j], int(target[j]), j + 1
        while size_left != size_right:
            if size_left < size_right:
                left, size_left, i = [*left, i], size_left * int(source[i]), i + 1
            else:
                right, size_right, j = [*right, j], size_right * int(target[j]), j + 1
        groups.append((left, right))
    return groups


def concatenate(values: Sequence[CompactValue], dim: int) -> Optional[torch.Tensor]:
    """Returns the compact form of ``cat``, None where a size is not static."""
    values = _without_empty(values)
    sizes = joined_sizes(values, dim)
    if sizes is None:
        return None
    dim = dim % len(sizes)
    first = values[0].data
    if all(v.data.shape[dim] == 1 and v.shape[dim] != 0 for v in values) and all(
        v.data.shape == first.shape and _equal_bits(v.data, first) for v in values[1:]
    ):
        return first
    pieces = []
    for v in values:
        wanted = list(sizes)
        wanted[dim] = int(v.shape[dim])
        pieces.append(v.data.expand(wanted))
    return torch.cat(pieces, dim)


def joined_sizes(values: Sequence[CompactValue], dim: int) -> Optional[Tuple[int, ...]]:
    """Returns the sizes of what ``concatenate`` gives, or larger ones if the pieces are
    equal, without looking at elements: full along ``dim``, along the others as large as
    the largest piece needs."""
    values = _without_empty(values)
    if not values:
        return None
    rank = len(values[0].shape)
    dim = dim % rank
    if not all(isinstance(v.shape[dim], int) for v in values):
        return None
    if any(v.data.shape[d] == 0 for v in values for d in range(rank) if d != dim):
        return None
    sizes = [max(v.data.shape[d] for v in values) for d in range(rank)]
    sizes[dim] = sum(int(v.shape[dim]) for v in values)
    return tuple(sizes)


def _without_empty(values: Sequence[CompactValue]) -> List[CompactValue]:
    return [v for v in values if tuple(v.shape) != (0,)]  # cat ignores these


def logical_bytes(shape: Sequence[Dim], dtype: torch.dtype) -> Optional[int]:
    """Returns the bytes of a tensor of this shape, None if it is not static."""
    if not all(isinstance(d, int) for d in shape):
        return None
    return math.prod(int(d) for d in shape) * dtype.itemsize
