# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Shows edited lines in the traceback of an exception that nobody catches.

Before 3.13 the interpreter prints such a traceback with the lines of files alone; later
ones ask linecache, as the module traceback does."""

import sys
import threading
import traceback
from typing import Any, Optional

from executorch.torch_patches.live import MARK


def install() -> None:
    """Makes the default hooks print with the module traceback what passed edited code.
    Hooks of others stay."""
    if sys.version_info >= (3, 13):
        return
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_uncaught
    if threading.excepthook is threading.__excepthook__:  # type: ignore[attr-defined]
        threading.excepthook = _print_uncaught_in_thread


def _print_uncaught(kind: Any, error: Optional[BaseException], where: Any) -> None:
    text = _if_edited(error)
    if text:
        sys.stderr.write(text)
    else:
        sys.__excepthook__(kind, error, where)  # type: ignore[arg-type]


def _print_uncaught_in_thread(args: Any) -> None:
    text = _if_edited(args.exc_value)
    if text:
        name = args.thread.name if args.thread else threading.get_ident()
        sys.stderr.write(f"Exception in thread {name}:\n{text}")
    else:
        threading.__excepthook__(args)  # type: ignore[attr-defined]


def _if_edited(error: Optional[BaseException]) -> str:
    """Returns the traceback as text, "" if no edited code is in it."""
    if error is None or sys.stderr is None:
        return ""
    text = "".join(traceback.format_exception(error))
    return text if MARK in text else ""
