# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from executorch.exir.tensor import TensorSpec\n",
        text="""from executorch.exir.synthesized_constants.recipe import is_constant_node
""",
        before=True,
        why="What the pass does for a synthesized constant.",
    ),
    Replace(
        owner="PropagateDevicePass._insert_h2d_copies",
        anchor='h2d_node.meta["spec"] = h2d_spec',
        replacement="""h2d_spec.const &= not is_constant_node(arg)
                h2d_node.meta["spec"] = h2d_spec""",
        why="The copy of a constant is made at run time: it is none, and needs memory.",
    ),
    Replace(
        owner="PropagateDevicePass._is_placeholder",
        anchor='return node.op == "placeholder"',
        replacement='return node.op == "placeholder" and not is_constant_node(node)',
        why="Nobody hands a synthesized constant in on the device: it is copied there.",
    ),
]
