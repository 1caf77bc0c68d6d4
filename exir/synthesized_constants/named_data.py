# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Names of constants in a .pte: entries over bytes that are in the constant segment.

``DataSegment`` offsets are absolute within the segment area, and nothing in the runtime
asks that segments be disjoint (runtime/executor/pte_data_map.cpp reads ``offset`` and
``size`` alone), so a segment of its own may lie over a part of the constant segment.
"""

import hashlib
from typing import Dict, List, Optional, TYPE_CHECKING

from executorch.exir.schema import Buffer, DataSegment, NamedData, Program
from executorch.exir.synthesized_constants.manifest import MANIFEST_KEY
from executorch.exir.synthesized_constants.names import parse_name

if TYPE_CHECKING:
    from executorch.exir._serialize._program import PTEFile
    from executorch.exir._serialize.data_serializer import DataEntry


def own_named_data(
    pte_file: "PTEFile", constant_tensor_alignment: Optional[int]
) -> Dict[str, "DataEntry"]:
    """Returns the named data that needs bytes of its own. The rest is in the constant
    segment too, and ``append_named_constants`` makes its entries.

    Args:
        pte_file: what is about to be written.
        constant_tensor_alignment: in bytes, of the constants.
    """
    assert pte_file.named_data is not None
    shared = _shared_with_constants(pte_file, constant_tensor_alignment or 1)
    return {k: e for k, e in pte_file.named_data.pte_data.items() if k not in shared}


def append_named_constants(
    program: Program, pte_file: "PTEFile", constant_tensor_alignment: Optional[int]
) -> None:
    """Adds a ``named_data`` entry for each named constant, and for other named data with
    the bytes of a constant, without a copy.

    Args:
        program: the program as it will be written; its segments and constant segment
            are laid out. Modified in-place.
        pte_file: what it is made of.
        constant_tensor_alignment: in bytes, of the constants.

    Raises:
        ValueError: the name of a constant is that of named data with other bytes.
    """
    if not _has_synthesized_constants(pte_file):
        return
    constants = pte_file.program.constant_buffer
    shared = _shared_with_constants(pte_file, constant_tensor_alignment or 1)
    _check_names(pte_file, constants)
    taken = {entry.key for entry in program.named_data or []}
    segment_of: Dict[int, int] = {}
    for name, index in sorted({**_names(pte_file), **shared}.items()):
        size = len(constants[index].storage)
        if size == 0 or name in taken:
            continue  # the runtime refuses to look up an empty segment
        if index not in segment_of:
            segment_of[index] = len(program.segments)
            program.segments.append(_segment_over(program, index, size))
        entry = NamedData(key=name, segment_index=segment_of[index])
        program.named_data = [*(program.named_data or []), entry]


def _names(pte_file: "PTEFile") -> Dict[str, int]:
    """Name -> index into the constants, of the synthesized ones."""
    return pte_file.named_constants  # type: ignore[attr-defined]


def _segment_over(program: Program, index: int, size: int) -> DataSegment:
    """A segment that lies over one constant in the constant segment."""
    constants = program.constant_segment
    assert constants is not None
    base = program.segments[constants.segment_index].offset
    return DataSegment(offset=base + constants.offsets[index], size=size)


def _has_synthesized_constants(pte_file: "PTEFile") -> bool:
    """Other programs are written as upstream writes them."""
    named_data = pte_file.named_data
    keys = named_data.pte_data if named_data is not None else ()
    return bool(_names(pte_file)) or any(
        key == MANIFEST_KEY or parse_name(key) for key in keys
    )


def _trains(program: Program) -> bool:
    """Whether an optimizer may write to the program's constants: what a delegate holds
    must then stay apart. Its metadata methods say so (exir/emit/_emit_program.py)."""
    return any(plan.name.startswith("__et_training") for plan in program.execution_plan)


def _shared_with_constants(pte_file: "PTEFile", alignment: int) -> Dict[str, int]:
    """Named data whose bytes the constant segment has, by index into the constants."""
    named_data = pte_file.named_data
    if named_data is None or not _has_synthesized_constants(pte_file):
        return {}
    if _trains(pte_file.program):
        return {}
    sizes = {len(buffer) for buffer in named_data.buffers}
    index_of = {
        _digest(buffer.storage): index
        for index, buffer in enumerate(pte_file.program.constant_buffer)
        if len(buffer.storage) in sizes
    }
    shared = {}
    for key, entry in named_data.pte_data.items():
        data = named_data.buffers[entry.buffer_index]
        if not isinstance(data, bytes) or alignment % entry.alignment:
            continue
        index = index_of.get(_digest(data)) if data else None
        if index is not None:
            shared[key] = index
    return shared


def _check_names(pte_file: "PTEFile", constants: List[Buffer]) -> None:
    named_data = pte_file.named_data
    if named_data is None:
        return
    for name, index in _names(pte_file).items():
        entry = named_data.pte_data.get(name)
        if entry is None:
            continue
        data = named_data.buffers[entry.buffer_index]
        if not isinstance(data, bytes) or data != constants[index].storage:
            raise ValueError(
                f"the synthesized constant {name} has the name of other named data; "
                "give that another key, or leave the constant's name out with "
                "Placement.program(named=False)"
            )


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
