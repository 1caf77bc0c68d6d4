# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""The changes to files of torch and executorch, as source edits.

``edits/`` says what changes, file by file in upstream's own tree; ``edit.py`` makes the
changes to text, ``live.py`` to imported modules, and ``activation.py`` says when.
"""
