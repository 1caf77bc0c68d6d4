# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.serde.schema import (",
        text="""from executorch.exir.synthesized_constants.serde import (
    describe_operands,
    restore_synthesized_constants,
)
""",
        before=True,
        why="How the kind is written.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize_metadata",
        anchor="        return meta\n",
        replacement="""        describe_operands(self.graph_signature, node, meta)
        return meta
""",
        why="The reader of this format refuses unknown fields, but not unknown metadata.",
    ),
    Replace(
        owner="ExportedProgramDeserializer.deserialize",
        anchor="        dummy_g = torch.fx.Graph()\n",
        replacement="""        restore_synthesized_constants(
            exported_program.graph_module.graph, res.graph_module.graph, res.signature
        )
        dummy_g = torch.fx.Graph()
""",
        why="The kind and the descriptions come back.",
    ),
]
