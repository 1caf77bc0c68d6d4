# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import math

import pytest
import torch
from executorch.exir.synthesized_constants.compact import (
    bits,
    CompactValue,
    compress,
    concatenate,
    fill_value,
    joined_sizes,
    logical_bytes,
    move,
    owned,
)
from hypothesis import assume, given, settings, strategies as st

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
)


@st.composite
def compact_values(draw: st.DrawFn) -> CompactValue:
    """Values of rank 0 to 4 of which some dimensions are compact."""
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    compact = [1 if draw(st.booleans()) else size for size in shape]
    numel = math.prod(compact)
    data = torch.arange(numel, dtype=torch.float32).reshape(compact)
    return CompactValue(data, shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_elements_compress_to_one_in_every_dtype(dtype: torch.dtype) -> None:
    ones = torch.ones(2, 3, 4, dtype=dtype)
    assert compress(ones).shape == (1, 1, 1)
    assert fill_value(ones) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_mask_compresses_along_the_dimensions_it_does_not_depend_on(
    dtype: torch.dtype,
) -> None:
    mask = torch.eye(4).to(dtype).expand(2, 3, 4, 4)
    small = compress(mask)
    assert small.shape == (1, 1, 4, 4)
    assert torch.equal(small.expand(mask.shape), mask)
    assert small.untyped_storage().nbytes() == small.numel() * small.element_size()


def test_uniformity_is_a_matter_of_bits() -> None:
    nan = torch.full((3,), math.nan)
    assert compress(nan).numel() == 1
    zeros = torch.tensor([0.0, -0.0])
    assert compress(zeros).numel() == 2
    assert fill_value(torch.tensor([-0.0, -0.0])) == 0
    big = torch.tensor([2**53, 2**53 + 1])
    assert fill_value(big) is None
    one_nan = torch.tensor([math.nan, 1.0])
    assert compress(one_nan).numel() == 2


def test_nothing_is_left_out_where_only_the_first_two_slices_are_equal() -> None:
    x = torch.tensor([1.0, 1.0, 2.0])
    assert torch.equal(compress(x), x)


def test_zero_size_and_rank_0() -> None:
    assert compress(torch.empty(0, 3)).shape == (0, 3)
    assert fill_value(torch.empty(0)) is None
    assert compress(torch.tensor(7)).shape == ()
    assert fill_value(torch.tensor(7)) == 7


def test_bits_of_complex128_keep_both_parts() -> None:
    a = torch.tensor([complex(1, 0.0)], dtype=torch.complex128)
    b = torch.tensor([complex(1, -0.0)], dtype=torch.complex128)
    assert not torch.equal(bits(a), bits(b))


def test_logical_bytes_are_those_of_the_full_shape() -> None:
    assert logical_bytes((2, 3), torch.int64) == 48
    assert logical_bytes((), torch.bool) == 1


MOVES = {
    "aten::unsqueeze_copy": lambda x, n: (n % (x.dim() + 1),),
    "aten::squeeze_copy": lambda x, n: (n % x.dim(),),
    "aten::permute_copy": lambda x, n: (
        [*range(n % x.dim(), x.dim()), *range(n % x.dim())],
    ),
    "aten::select_copy": lambda x, n: (n % x.dim(), 0),
    "aten::slice_copy": lambda x, n: (n % x.dim(), n % 2, 3, 1 + n % 2),
    "aten::flip": lambda x, n: ([n % x.dim()],),
    "aten::repeat": lambda x, n: ([1 + n % 2, *[1 + n % 3] * x.dim()],),
    "aten::expand_copy": lambda x, n: ([2, *x.shape],),
    "aten::view_copy": lambda x, n: (_reshaped(x, n),),
    "aten::alias_copy": lambda x, n: (),
}

OPS = {
    "aten::unsqueeze_copy": torch.ops.aten.unsqueeze_copy.default,
    "aten::squeeze_copy": torch.ops.aten.squeeze_copy.dim,
    "aten::permute_copy": torch.ops.aten.permute_copy.default,
    "aten::select_copy": torch.ops.aten.select_copy.int,
    "aten::slice_copy": torch.ops.aten.slice_copy.Tensor,
    "aten::flip": torch.ops.aten.flip.default,
    "aten::repeat": torch.ops.aten.repeat.default,
    "aten::expand_copy": torch.ops.aten.expand_copy.default,
    "aten::view_copy": torch.ops.aten.view_copy.default,
    "aten::alias_copy": torch.ops.aten.alias_copy.default,
}


def _reshaped(x: torch.Tensor, n: int) -> "list[int]":
    options = [[-1], [*x.shape, 1], [1, *x.shape], [x.numel(), 1]]
    if x.dim() > 1:
        options.append([x.shape[0] * x.shape[1], *x.shape[2:]])
    if x.numel() % 2 == 0:
        options.append([2, x.numel() // 2])
    sizes = options[n % len(options)]
    return [x.numel() if s == -1 else s for s in sizes]


@settings(max_examples=400, deadline=None)
@given(compact_values(), st.sampled_from(sorted(OPS)), st.integers(0, 59))
def test_moving_the_compact_form_gives_the_value_that_moving_the_value_gives(
    value: CompactValue, name: str, n: int
) -> None:
    full = value.view().contiguous()
    assume(full.dim() > 0)
    arguments = MOVES[name](full, n)
    expected = OPS[name](full, *arguments)
    assume(expected.numel() > 0)
    moved = move(name, value, tuple(expected.shape), arguments)
    form = value.form.without_elements()
    sizes = move(name, form, tuple(expected.shape), arguments)
    assert (sizes is None) == (moved is None)
    assert sizes is None or moved is None or sizes.shape == moved.shape
    if moved is None:
        assert name == "aten::view_copy"  # merges a compact with a full dimension
        return
    assert moved.dim() == expected.dim()
    assert torch.equal(moved.expand(expected.shape), expected)
    assert moved.numel() <= expected.numel()
    if value.uniform:
        assert moved.numel() == 1


@settings(max_examples=200, deadline=None)
@given(compact_values(), st.integers(0, 3), st.booleans())
def test_concatenation_of_compact_forms(
    value: CompactValue, dim: int, same: bool
) -> None:
    if not value.shape:
        return
    dim = dim % len(value.shape)
    other = value if same else CompactValue(value.data + 1, value.shape)
    expected = torch.cat([value.view(), other.view()], dim)
    joined = concatenate([value, other], dim)
    assert joined is not None
    sizes = joined_sizes([v.form.without_elements() for v in (value, other)], dim)
    assert sizes is not None
    assert all(size in (1, limit) for size, limit in zip(joined.shape, sizes))
    assert tuple(joined.shape) in (sizes, tuple(value.data.shape))
    assert torch.equal(joined.expand(expected.shape), expected)
    if same and value.data.shape[dim] == 1 and value.shape[dim] != 1:
        assert joined.shape == value.data.shape


def test_a_reshape_that_keeps_broadcast_dimensions_apart_stays_compact() -> None:
    value = CompactValue(torch.arange(4.0).reshape(1, 1, 4), (2, 3, 4))
    moved = move("aten::view_copy", value, (6, 2, 2), ([6, 2, 2],))
    assert moved is not None and moved.shape == (1, 2, 2)
    assert move("aten::view_copy", value, (2, 12), ([2, 12],)) is None


def test_what_needs_no_compressing_is_not_copied() -> None:
    tensor = torch.arange(6.0).reshape(2, 3)
    assert compress(tensor) is tensor
    assert owned(tensor) is tensor


def test_a_part_owns_its_bytes_alone() -> None:
    tensor = torch.arange(6.0).reshape(3, 2)
    for part in (tensor[1], tensor[:, 1], tensor.t()):
        copy = owned(part)
        assert torch.equal(copy, part) and copy.is_contiguous()
        assert copy.untyped_storage().nbytes() == part.numel() * 4


def test_pieces_of_other_dtypes_are_not_equal_whatever_their_bits() -> None:
    one = CompactValue(torch.ones(1, 1), (2, 1))
    bits_of_one = torch.tensor([[0x3F800000]], dtype=torch.int32)
    same_bits = CompactValue(bits_of_one, (2, 1))
    joined = concatenate([one, same_bits], 0)
    expected = torch.cat([one.view(), same_bits.view()])
    assert joined is not None and torch.equal(joined.expand(4, 1), expected)
