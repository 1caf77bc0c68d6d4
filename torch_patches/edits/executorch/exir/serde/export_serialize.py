# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="import executorch.exir as exir\n",
        text="from executorch.exir.synthesized_constants.serde import merge_shared_constants\n",
        why="How the kind is written.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize",
        anchor="        graph = self.serialize_graph(graph_module)\n",
        replacement="""        graph_module, self.graph_signature = merge_shared_constants(
            graph_module, self.graph_signature
        )
        graph = self.serialize_graph(graph_module)
""",
        why="Files stay readable for torch without the kind.",
    ),
    Replace(
        owner="GraphModuleSerializer.serialize_input_spec",
        anchor="elif spec.kind == ep.InputKind.CONSTANT_TENSOR:",
        replacement="""elif spec.kind in (
            ep.InputKind.CONSTANT_TENSOR,
            ep.InputKind.SYNTHESIZED_CONSTANT,
        ):""",
        why="It is stored as a constant tensor; the kind is with its user (serialize.py).",
    ),
]
