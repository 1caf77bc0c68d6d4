# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.tensor import scalar_type_enum\n",
        text="""from executorch.exir.synthesized_constants.recipe import is_constant_node
""",
        before=True,
        why="What the pass does for a synthesized constant.",
    ),
    Replace(
        owner="_gather_io_names",
        anchor='[n.name for n in gm.graph.nodes if n.op == "placeholder"]',
        replacement="""[
            n.name
            for n in gm.graph.nodes
            if n.op == "placeholder" and not is_constant_node(n)
        ]""",
        why="The names are looked up by the index of an input.",
    ),
]
