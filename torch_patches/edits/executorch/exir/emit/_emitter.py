# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.tensor import (\n    AddressSpaceOverflowException,",
        text="""from executorch.exir.synthesized_constants.emit import (
    file_of_constant,
    Home,
    name_synthesized_constant,
    restore_dim_order,
)
""",
        before=True,
        why="What the emitter does for a synthesized constant.",
    ),
    Insert(
        owner="_ProgramState",
        anchor="    external_constant_map: Dict[str, Dict[str, int]] = field(default_factory=dict)\n",
        text="""    # Synthesized constants that can be found by name.
    # {fqn: file and index into its buffers}
    named_constant_map: Dict[str, Home] = field(default_factory=dict)
""",
        why="Which constants have a name.",
    ),
    Replace(
        owner="_TopLevelEmitter.placeholder",
        anchor='self.node.meta.get("constant_tag", None)',
        replacement="file_of_constant(self.node)",
        why="The description of a synthesized constant says its file.",
    ),
    Replace(
        owner="_TopLevelEmitter.placeholder",
        anchor="        evalue = (\n",
        replacement="        restore_dim_order(self.node, spec)\n        evalue = (\n",
        why="Strides of size-1 dimensions cannot tell the dim order of a shrunk constant.",
    ),
    Replace(
        owner="_TopLevelEmitter.placeholder",
        anchor="        value = self._emit_evalue(evalue)\n",
        replacement="""        name_synthesized_constant(
            self.exported_program.graph_signature,
            self.node,
            evalue,
            self.program_state.named_constant_map,
        )
        value = self._emit_evalue(evalue)
""",
        why="A synthesized constant in the PTE file has a name.",
    ),
]
