# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert

EDITS = [
    Insert(
        owner="InputToTensorConstantSpec",
        anchor="    tensor_constant_name: Annotated[str, 20]\n",
        text="""    # Of a SYNTHESIZED_CONSTANT: its description, "" if it has none.
    synthesized: Annotated[str | None, 30] = None
""",
        why="An optional field: readers that do not know it load a constant tensor.",
    ),
]
