# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch._export.utils import is_buffer, is_lifted_tensor_constant, is_param\n",
        text="""from executorch.exir.synthesized_constants.partition import (
    tag_synthesized_constants,
)
""",
        before=True,
        why="What partitioning does for a synthesized constant.",
    ),
    Replace(
        owner="ConfigerationBasedPartitioner.partition",
        anchor="        return PartitionResult(",
        replacement="""        tag_synthesized_constants(exported_program)

        return PartitionResult(""",
        why="These partitioners tag the weights of some ops only; a synthesized constant goes with its users.",
    ),
]
