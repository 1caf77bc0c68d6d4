# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Names of constants in a .pte: entries over bytes that are in the constant segment."""

from typing import List, Mapping

from executorch.exir.schema import Buffer, DataSegment, NamedData, Program


def append_named_constants(
    program: Program, constant_buffer: List[Buffer], names: Mapping[str, int]
) -> None:
    """Adds a ``named_data`` entry for each of ``names``, without a copy of its bytes.

    ``DataSegment`` offsets are absolute within the segment area, and nothing in the
    runtime asks that segments be disjoint (runtime/executor/pte_data_map.cpp reads
    ``offset`` and ``size`` alone), so a second segment may lie over a part of the
    constant segment.

    Args:
        program: the program as it will be written; its segments and constant segment
            are laid out. Modified in-place.
        constant_buffer: the buffers that went into the constant segment.
        names: name -> index into ``constant_buffer``.

    Raises:
        ValueError: a name is already that of other named data.
    """
    if not names:
        return
    taken = {entry.key for entry in program.named_data or []}
    base = program.segments[program.constant_segment.segment_index].offset
    for name, index in sorted(names.items()):
        size = len(constant_buffer[index].storage)
        if size == 0:
            continue  # the runtime refuses to look up an empty segment
        if name in taken:
            raise ValueError(
                f"the synthesized constant {name} has the name of other named data"
            )
        segment = DataSegment(
            offset=base + program.constant_segment.offsets[index], size=size
        )
        program.named_data = [
            *(program.named_data or []),
            NamedData(key=name, segment_index=len(program.segments)),
        ]
        program.segments.append(segment)
