# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.version import EXECUTORCH_SCHEMA_VERSION\n",
        text="from executorch.exir.synthesized_constants.emit import names_in_program\n",
        before=True,
        why="What emission does for a synthesized constant.",
    ),
    Insert(
        owner="",
        anchor="from dataclasses import dataclass",
        text=", field",
        why="A dict needs a default factory.",
        live="from dataclasses import field",
    ),
    Insert(
        owner="EmitterOutput",
        anchor="    external_constant_map: Optional[Dict[str, Dict[str, int]]]\n",
        text="""
    # Constants that can be found by name in the PTE file.
    # {fqn: index into program.constant_buffer}
    named_constant_map: Dict[str, int] = field(default_factory=dict)
""",
        why="Hands the names on to serialization.",
    ),
    Replace(
        owner="emit_program",
        anchor="        external_constant_map=program_state.external_constant_map,\n",
        replacement="""        external_constant_map=program_state.external_constant_map,
        named_constant_map=names_in_program(
            program_state.named_constant_map, program_state.external_constant_map
        ),
""",
        why="Hands the names on to serialization.",
    ),
]
