# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What XNNPACK's partitioner does for a synthesized constant."""

import torch
from torch.export import ExportedProgram
from torch.fx import Node


def tag_synthesized_constants(exported_program: ExportedProgram) -> None:
    """Gives a synthesized constant all of whose users go to one delegate to that
    delegate. Otherwise it would be an input of the delegate at every call.

    XNNPACK's partitioner leaves it out: it tags the weights of convolutions, linears and
    the like, but no constant operand of an element-wise op.

    Args:
        exported_program: with ``delegation_tag`` on the nodes that are delegated.
            Modified in-place: constants that have no tag may get one.
    """
    names = exported_program.graph_signature.inputs_to_synthesized_constants
    for node in exported_program.graph.find_nodes(op="placeholder"):
        if node.name not in names:
            continue
        tags = {user.meta.get("delegation_tag") for user in node.users}
        if len(tags) == 1 and None not in tags and _may_be_taken(node):
            node.meta.setdefault("delegation_tag", tags.pop())


def _may_be_taken(node: Node) -> bool:
    return not (_decides_rank(node) or _is_channels_last_operand(node))


def _decides_rank(node: Node) -> bool:
    """XNNPACK's serializer gives a static tensor of rank 0 one dimension. The result
    of an op over it and another tensor of rank 0 then has rank 1, which the delegate
    refuses to hand to a tensor of rank 0."""
    return node.meta["val"].dim() == 0 and any(
        isinstance(user.meta.get("val"), torch.Tensor) and user.meta["val"].dim() == 0
        for user in node.users
    )


def _is_channels_last_operand(node: Node) -> bool:
    """XNNPACK runs some ops channels-last. It converts their first operand, but not if
    that is a static tensor: then it gives up."""
    # Not at the top: importing exir must not import a backend.
    from executorch.backends.xnnpack._passes.channels_last_tagged_reshape_pass import (
        ChannelsLastTaggedReshapePass,
    )

    return node.meta["val"].dim() == 4 and any(
        user.target in ChannelsLastTaggedReshapePass.memory_sensitive_ops_nhwc
        and user.args[0] is node
        for user in node.users
    )
