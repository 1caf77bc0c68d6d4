# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What partitioning does for a synthesized constant."""

from executorch.exir.synthesized_constants.recipe import is_synthesized_constant
from torch.export import ExportedProgram


def tag_synthesized_constants(exported_program: ExportedProgram) -> None:
    """Gives a synthesized constant all of whose users go to one delegate to that
    delegate. Otherwise it would be an input of the delegate at every call.

    Args:
        exported_program: with ``delegation_tag`` on the nodes that are delegated.
            Modified in-place: constants that have no tag may get one.
    """
    for node in exported_program.graph.find_nodes(op="placeholder"):
        if not is_synthesized_constant(exported_program, node):
            continue
        tags = {user.meta.get("delegation_tag") for user in node.users}
        if len(tags) == 1 and None not in tags:
            node.meta.setdefault("delegation_tag", tags.pop())
