# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Reads named constants back from a .pte file."""

import contextlib
import math
import mmap
import os
from typing import Dict, Iterator, NoReturn, Optional, Tuple, Union

import torch
from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
from executorch.exir._serialize._program import _ExtendedHeader, _get_extended_header
from executorch.exir.schema import Program, Tensor, TensorDataLocation
from executorch.exir.tensor import scalar_type_table, stride_from_dim_order

Bytes = Union[bytes, bytearray, memoryview]
PathLike = Union[str, "os.PathLike[str]"]

# The quantized dtypes of eager mode need scales, which a program does not hold.
_QUANTIZED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2)
_DTYPES = {
    scalar_type: dtype
    for dtype, scalar_type in scalar_type_table.items()
    if dtype not in _QUANTIZED
}


class InvalidProgramError(ValueError):
    """The input is not a .pte file, or a damaged one."""


def read_synthesized_constants(pte: Union[Bytes, PathLike]) -> Dict[str, torch.Tensor]:
    """Returns the constants that a program holds under a name.

    Constants that a delegate took are not among them, nor those without elements,
    which have no bytes to be named.

    Args:
        pte: the file's bytes or its path.

    Returns:
        Name -> tensor with the dtype, shape and dim order that the program states.
        The tensors own their bytes. Sorted by name.

    Raises:
        InvalidProgramError: not a .pte file, or a truncated or otherwise damaged one.
        OSError: the file cannot be read.
    """
    with _opened(pte) as data:
        program, base = read_program(data)
        segments = _named_segments(program, len(data) - base)
        found: Dict[str, torch.Tensor] = {}
        for name, tensor in _named_tensors(program):
            if name in segments and name not in found:
                offset, size = segments[name]
                start = base + offset
                found[name] = _to_torch(name, tensor, data[start : start + size])
        return dict(sorted(found.items()))


def read_program(data: Union[Bytes, mmap.mmap]) -> Tuple[Program, int]:
    """Parses the program at the start of a .pte file; its segments stay unread.

    Returns:
        The program, and where its segments begin: the file's end if there are none.

    Raises:
        InvalidProgramError: see ``read_synthesized_constants``.
    """
    if bytes(data[4:6]) != b"ET":
        raise InvalidProgramError("not a .pte file: it does not have the magic ET")
    program_size = base = stated = len(data)
    header = _get_extended_header(bytes(data[: _ExtendedHeader.NUM_HEAD_BYTES]))
    if header is not None:
        program_size = header.program_size
        base = header.segment_base_offset or len(data)
        stated = max(program_size, base + header.segment_data_size)
    if stated > len(data):
        _damaged(f"it has {len(data)} of its {stated} bytes")
    try:
        # What this raises for damaged input is whatever its field readers run into.
        return _flatbuffer_to_program(bytes(data[:program_size])), base
    except Exception as error:
        _damaged(f"{type(error).__name__}: {error}", error)


@contextlib.contextmanager
def _opened(pte: Union[Bytes, PathLike]) -> Iterator[Union[Bytes, mmap.mmap]]:
    """The bytes of ``pte``. A file is mapped, since its weights are not needed."""
    if isinstance(pte, (bytes, bytearray, memoryview)):
        yield pte
        return
    with open(pte, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:  # which cannot be mapped
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            yield mapped


def _named_segments(program: Program, available: int) -> Dict[str, Tuple[int, int]]:
    """Name -> offset and size within the segment area of ``available`` bytes."""
    found = {}
    segments = program.segments or []  # in a damaged file, any list can be missing
    for entry in program.named_data or []:
        if entry.segment_index >= len(segments):
            _damaged(f"the named data {entry.key!r} has no segment")
        segment = segments[entry.segment_index]
        if segment.offset + segment.size > available:
            _damaged(f"the named data {entry.key!r} reaches beyond the end")
        found[entry.key] = segment.offset, segment.size
    return found


def _named_tensors(program: Program) -> Iterator[Tuple[str, Tensor]]:
    """The constants with a name in all methods. Mutable buffers may have one too, but
    lie in planned memory."""
    for plan in program.execution_plan or []:
        for value in plan.values or []:
            tensor = value.val
            if (
                isinstance(tensor, Tensor)
                and tensor.extra_tensor_info is not None
                and tensor.extra_tensor_info.fully_qualified_name
                and tensor.extra_tensor_info.location == TensorDataLocation.SEGMENT
                and tensor.allocation_info is None
                and tensor.data_buffer_idx > 0
            ):
                yield tensor.extra_tensor_info.fully_qualified_name, tensor


def _to_torch(name: str, tensor: Tensor, data: Bytes) -> torch.Tensor:
    sizes, order = list(tensor.sizes or []), list(tensor.dim_order or [])
    dtype = _DTYPES.get(tensor.scalar_type)
    if dtype is None:
        _damaged(f"the constant {name!r} cannot have dtype {tensor.scalar_type!r}")
    if any(s < 0 for s in sizes) or sorted(order) != list(range(len(sizes))):
        _damaged(f"the constant {name!r} has sizes {sizes} with dim order {order}")
    size = math.prod(sizes) * dtype.itemsize
    if size != len(data) or size == 0:
        _damaged(f"the constant {name!r} needs {size} bytes but has {len(data)}")
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype)
    return flat.as_strided(sizes, stride_from_dim_order(sizes, order))


def _damaged(why: str, cause: Optional[Exception] = None) -> NoReturn:
    raise InvalidProgramError(f"a damaged .pte file: {why}") from cause
