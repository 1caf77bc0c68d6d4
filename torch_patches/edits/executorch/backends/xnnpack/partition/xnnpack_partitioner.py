# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from executorch.torch_patches.edit import Insert, Replace

EDITS = [
    Insert(
        owner="",
        anchor="from torch.fx.passes.infra.partitioner import Partition\n",
        text="""from executorch.exir.synthesized_constants import xnnpack
""",
        before=True,
        why="What the partitioner does for a synthesized constant.",
    ),
    Replace(
        owner="XnnpackPartitioner.partition",
        anchor="        return super().partition(exported_program)\n",
        replacement="""        result = super().partition(exported_program)
        xnnpack.tag_synthesized_constants(exported_program)
        return result
""",
        why="It tags the weights of some ops only; a synthesized constant goes with its users.",
    ),
]
