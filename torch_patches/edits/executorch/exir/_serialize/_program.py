# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.tensor import ALIGNMENT",
        text="""
from executorch.exir.synthesized_constants.named_data import (
    append_named_constants,
    own_named_data,
)
""",
        before=True,
        why="What serialization does for a synthesized constant.",
    ),
    Insert(
        owner="",
        anchor="from dataclasses import dataclass",
        text=", field",
        why="A dict needs a default factory.",
        live="from dataclasses import field",
    ),
    Insert(
        owner="PTEFile",
        anchor="    named_data: Optional[NamedDataStoreOutput] = None\n",
        text="""    # Names of constants: {name: index into program.constant_buffer}
    named_constants: Dict[str, int] = field(default_factory=dict)
""",
        why="Which constants can be found by name.",
    ),
    Replace(
        owner="serialize_pte_binary",
        anchor="program, segments, pte_file.named_data.buffers, pte_file.named_data.pte_data",
        replacement="""program,
            segments,
            pte_file.named_data.buffers,
            own_named_data(pte_file, constant_tensor_alignment),""",
        why="What a delegate and the constant segment both have is stored once.",
    ),
    Replace(
        owner="serialize_pte_binary",
        anchor="""        segments_data.append(segment.data)

""",
        replacement="""        segments_data.append(segment.data)

    append_named_constants(program, pte_file, constant_tensor_alignment)

""",
        why="A name costs a segment entry over the bytes that are there, no copy.",
    ),
]
