# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What can go wrong when the edits meet the installed packages."""


class PatchError(RuntimeError):
    """The edits do not fit the installed torch or executorch.

    The message names the package with its version, the file, and the anchor that
    was not found; nothing was changed when it is raised.
    """


class AnchorError(PatchError):
    """An edit's anchor was not found exactly once inside its owner."""
