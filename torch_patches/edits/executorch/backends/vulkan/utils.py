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
        text="""from executorch.exir.synthesized_constants.table import set_synthesized_tensor
""",
        before=True,
        why="How the tensor of a synthesized constant is replaced.",
    ),
    Replace(
        owner="update_program_state_dict",
        anchor="    target_name = None\n",
        replacement="""    if set_synthesized_tensor(program, buffer_name, updated_tensor):
        return
    target_name = None
""",
        why="A scale or zero point that was a buffer may be a synthesized constant now.",
    ),
]
