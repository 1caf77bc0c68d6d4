# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch._subclasses import FakeTensor\n",
        text="""from executorch.exir.synthesized_constants.table import synthesized_tensors
""",
        before=True,
        why="The values of synthesized constants.",
    ),
    Replace(
        owner="EdgeProgramToIRConverter.map_inputs_to_parameters",
        anchor="        result_map = {}\n",
        replacement="        result_map = synthesized_tensors(edge_program)\n",
        why="A lifted scalar that was a buffer is a synthesized constant now.",
    ),
]
