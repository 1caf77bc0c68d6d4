# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Makes the edits and the new files in source trees of pytorch and executorch, as the
series of patches that is meant for upstream.

``series.py`` says what the patches are, ``render.py`` computes the files after each,
``tree.py`` and ``git.py`` read and write trees, ``cli.py`` is the command.
"""
