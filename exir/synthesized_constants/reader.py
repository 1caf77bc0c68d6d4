# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Reads named constants back from a .pte file and its data files."""

import contextlib
import math
import mmap
import os
from dataclasses import dataclass
from typing import (
    Any,
    Dict,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import torch
from executorch.exir.schema import Program, Tensor, TensorDataLocation
from executorch.exir.synthesized_constants.flat_tensor import read_names
from executorch.exir.synthesized_constants.manifest import (
    DELEGATE,
    MANIFEST_KEY,
    ManifestEntry,
    read_manifest,
)
from executorch.exir.synthesized_constants.names import parse_name
from executorch.exir.synthesized_constants.rewrite import DTYPE_NAMES
from executorch.exir.tensor import (
    scalar_type_enum,
    scalar_type_table,
    stride_from_dim_order,
)

Bytes = Union[bytes, bytearray, memoryview]
PathLike = Union[str, "os.PathLike[str]"]
DataFiles = Union[None, Bytes, PathLike, Sequence[Union[Bytes, PathLike]]]
#: Scalar type, sizes and dim order; in a damaged file, lists can be missing.
Layout = Tuple[Any, Optional[List[int]], Optional[List[int]]]

# The quantized dtypes of eager mode need scales, which a program does not hold.
_QUANTIZED = (torch.qint8, torch.quint8, torch.qint32, torch.quint4x2)
_DTYPES = {
    scalar_type: dtype
    for dtype, scalar_type in scalar_type_table.items()
    if dtype not in _QUANTIZED
}


_DTYPE_OF_NAME = {text: dtype for dtype, text in DTYPE_NAMES.items()}


class InvalidProgramError(ValueError):
    """The input is not a .pte or .ptd file, or a damaged one."""


@dataclass(frozen=True)
class StoredConstant:
    """A constant as files hold it.

    Attributes:
        name: its name.
        where: ``program``; ``delegate`` for one in the .pte that a delegate took; or the
            text of its placement: ``external <tag>``, ``input``, ``input <tag>``.
        dtype: of the stored form.
        shape: of the stored form.
        dim_order: of the bytes, outermost first.
        tensor: its value; it owns its bytes. None if they are in a data file that was
            not given.
    """

    name: str
    where: str
    dtype: torch.dtype
    shape: Tuple[int, ...]
    dim_order: Tuple[int, ...]
    tensor: Optional[torch.Tensor]


def read_synthesized_constants(
    pte: Union[Bytes, PathLike], ptd: DataFiles = None
) -> Dict[str, torch.Tensor]:
    """Returns the constants that a program holds under a name, the default values of
    inputs among them.

    Those that a delegate took are among them if its backend stores them as named data.
    Those without elements are not: they have no bytes to be named.

    Args:
        pte: the file's bytes or its path.
        ptd: the same of its data file, or a sequence for several. Without, the constants
            in data files are left out.

    Returns:
        Name -> tensor with the dtype, shape and dim order that the files state. The
        tensors own their bytes. Sorted by name.

    Raises:
        InvalidProgramError: not a .pte or .ptd file, or a truncated or otherwise damaged
            one, or the data files lack a constant.
        OSError: a file cannot be read.
    """
    stored = list_synthesized_constants(pte, ptd)
    return {c.name: c.tensor for c in stored if c.tensor is not None}


def list_synthesized_constants(
    pte: Union[Bytes, PathLike], ptd: DataFiles = None
) -> List[StoredConstant]:
    """Returns all named constants of a program, and where they are, sorted by name.

    Args, Raises:
        As ``read_synthesized_constants``.
    """
    with _opened(pte) as data:
        program, base = read_program(data)
        segments = _named_segments(program, len(data) - base)
        inside = {
            name: data[base + offset : base + offset + size]
            for name, (offset, size) in segments.items()
            if name == MANIFEST_KEY
        }
        manifest = _parse_manifest(inside.get(MANIFEST_KEY, b"{}"))
        tensors = dict(_named_tensors(program))
        for name, (offset, size) in segments.items():
            if name in tensors or name in manifest or _layout_of(name, size):
                inside[name] = data[base + offset : base + offset + size]
    found: Dict[str, StoredConstant] = {}
    for name, tensor in tensors.items():
        if name in inside:
            layout = (tensor.scalar_type, tensor.sizes, tensor.dim_order)
            found[name] = _stored(name, "program", layout, inside[name])
    for name, data in inside.items():
        described = _layout_of(name, len(data))
        if described and name not in found and name not in manifest:
            found[name] = _stored(name, DELEGATE, described, data)
    outside = _read_data_files(ptd, {n for n, e in manifest.items() if e.tag})
    for name, e in manifest.items():
        if name not in found:
            held = _bytes_of(name, e, inside, outside)
            stated: Any = (e.scalar_type, list(e.sizes), list(e.dim_order))
            found[name] = _stored(name, e.where, stated, held)
    return [constant for _, constant in sorted(found.items())]


def _bytes_of(
    name: str,
    entry: ManifestEntry,
    inside: Mapping[str, Bytes],
    outside: Optional[Mapping[str, Bytes]],
) -> Optional[Bytes]:
    """The bytes of a constant of the manifest; None if no data file was given."""
    if entry.tag is not None and outside is None:
        return None
    held = inside if entry.tag is None else outside
    if held is None or name not in held:
        _damaged(f"the file that should have the constant {name!r} does not")
    return held[name]


def _layout_of(name: str, size: int) -> Optional[Layout]:
    """What the name of a constant says of its bytes, None if it is not one's."""
    parts = parse_name(name)
    dtype = _DTYPE_OF_NAME.get(parts.dtype) if parts else None
    if parts is None or dtype is None:
        return None
    if math.prod(parts.shape) * dtype.itemsize != size:
        return None
    order = list(range(len(parts.shape)))
    return scalar_type_enum(dtype), list(parts.shape), order


def _parse_manifest(data: Bytes) -> Dict[str, ManifestEntry]:
    try:
        return read_manifest(bytes(data))
    except (ValueError, RecursionError) as error:
        _damaged(f"its list of constants cannot be read: {error}", error)


def _read_data_files(ptd: DataFiles, wanted: Set[str]) -> Optional[Dict[str, Bytes]]:
    """Name -> bytes of what is wanted of all data files; None without any file."""
    if ptd is None:
        return None
    found: Dict[str, Bytes] = {}
    for file in ptd if isinstance(ptd, (list, tuple)) else [ptd]:
        with _opened(file) as data:
            try:
                names = read_names(data)
            except ValueError as error:
                raise InvalidProgramError(
                    f"not a .ptd file, or a damaged one: {error}"
                ) from error
            for name in wanted & names.keys():
                entry = names[name]
                found[name] = bytes(data[entry.offset : entry.offset + entry.size])
    return found


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
    # Not at the top: they import this package.
    from executorch.exir._serialize._flatbuffer_program import _flatbuffer_to_program
    from executorch.exir._serialize._program import (
        _ExtendedHeader,
        _get_extended_header,
    )

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
        if entry.key is None:
            _damaged("a named data has no name")
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


def _stored(
    name: str, where: str, layout: Layout, data: Optional[Bytes]
) -> StoredConstant:
    scalar_type, sizes, dim_order = layout
    shape, order = tuple(sizes or ()), tuple(dim_order or ())
    dtype = _DTYPES.get(scalar_type)
    if dtype is None:
        _damaged(f"the constant {name!r} cannot have dtype {scalar_type!r}")
    if any(s < 0 for s in shape) or sorted(order) != list(range(len(shape))):
        _damaged(f"the constant {name!r} has sizes {shape} with dim order {order}")
    if data is None:
        return StoredConstant(name, where, dtype, shape, order, None)
    size = math.prod(shape) * dtype.itemsize
    if size != len(data) or size == 0:
        _damaged(f"the constant {name!r} needs {size} bytes but has {len(data)}")
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8).view(dtype)
    tensor = flat.as_strided(shape, stride_from_dim_order(list(shape), list(order)))
    return StoredConstant(name, where, dtype, shape, order, tensor)


def _damaged(why: str, cause: Optional[Exception] = None) -> NoReturn:
    raise InvalidProgramError(f"a damaged .pte file: {why}") from cause
