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
        text="""from executorch.exir.synthesized_constants.recipe import is_bound_to_constant
""",
        before=True,
        why="What memory planning does for a synthesized constant.",
    ),
    Replace(
        owner="collect_specs_from_nodes",
        anchor="and spec.const\n",
        replacement="and (spec.const or is_bound_to_constant(node))\n",
        why="A constant that enters the body of a control-flow op needs no memory there.",
    ),
]
