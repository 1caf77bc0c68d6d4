# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Dim orders: how the bytes of a stored form lie in memory."""

from typing import List, Sequence, Tuple

import torch
from executorch.exir.synthesized_constants.compact import Dim
from executorch.exir.tensor import dim_order_from_stride, stride_from_dim_order

_CHANNELS_LAST = (0, 2, 3, 1)


def dim_order_of(value: torch.Tensor) -> Tuple[int, ...]:
    """Returns the dim order in which a constant for this graph value is stored.

    It is the one that the graph says, which kernels compare literally, and not the one
    that running the op happens to give. Other orders than the default and channels_last
    cannot be emitted (the emitter makes such constants contiguous), so they become
    the default.
    """
    default = tuple(range(value.dim()))
    if any(isinstance(s, int) and s == 0 for s in value.stride()):
        return default
    strides = value.stride()
    if all(isinstance(s, int) for s in strides):
        # What dim_order_from_stride gives, which makes a class at each call.
        order = tuple(sorted(default, key=lambda d: strides[d], reverse=True))
    else:
        order = tuple(
            int(d) for d in dim_order_from_stride(strides)  # type: ignore[arg-type]
        )
    return order if order == _CHANNELS_LAST else default


def can_broadcast_into(result: torch.Tensor) -> bool:
    """Whether an element-wise kernel may be left to broadcast its operands into
    ``result``.

    Only in the default dim order: where the result is channels_last, portable kernels
    refuse an operand in the default order (error 0x12), and give wrong numbers for a
    smaller one that says channels_last (executorch 1.5.1: ``maximum``, ``where``,
    ``add``, ``mul`` over ``[2, 3, 4, 5]`` and ``[1, 3, 1, 1]``).
    """
    return dim_order_of(result) == tuple(range(result.dim()))


def lay_out(view: torch.Tensor, dim_order: Sequence[int]) -> torch.Tensor:
    """Returns a copy of ``view`` that owns exactly its bytes, in this dim order."""
    shape = list(view.shape)
    strides = stride_from_dim_order(shape, list(dim_order))
    return torch.empty_strided(shape, strides, dtype=view.dtype).copy_(view)


def emittable_orders(dim_order: Sequence[int]) -> List[Tuple[int, ...]]:
    """Returns the dim orders that a constant can have in a file, its own first."""
    default = tuple(range(len(dim_order)))
    orders = [tuple(dim_order), default]
    if len(default) == len(_CHANNELS_LAST):
        orders.append(_CHANNELS_LAST)
    return list(dict.fromkeys(orders))


def lie_alike(shape: Sequence[int], one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether the elements of a tensor lie in memory alike in two dim orders, which may
    differ in where they put dimensions of size 1."""
    if 0 in shape:
        return True
    one, other = ([d for d in order if shape[d] != 1] for order in (one, other))
    return one == other


def bytes_in_order(tensor: torch.Tensor, dim_order: Sequence[int]) -> bytes:
    """Returns the elements of a tensor as they lie in memory in this dim order."""
    flat = tensor.detach().permute(tuple(dim_order)).contiguous().flatten()
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def expanded_sizes(shape: Sequence[Dim]) -> "list[int]":
    """Returns a static shape as the sizes argument of ``expand_copy``."""
    assert all(isinstance(d, int) for d in shape)
    return [int(d) for d in shape]
