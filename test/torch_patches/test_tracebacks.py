# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""What is printed of an exception that nobody catches: in processes of their own, which
import neither torch nor executorch."""

import subprocess
import sys

import pytest

EXAMPLE = """
def edited(x):
    return x

def untouched(x):
    return 1 / x
"""

CHILD = """
import pathlib, sys, threading
sys.path.insert(0, sys.argv[1])
import example
from executorch.torch_patches import live, tracebacks
from executorch.torch_patches.edit import Replace

edit = Replace("edited", "return x", "y = x  # new\\n    return untouched(y)", "Test.")
source = pathlib.Path(example.__file__).read_text()
live.commit([live.prepare(example, example.__file__, source, [edit])])
{setup}
tracebacks.install()
thread = threading.Thread(target=example.{function}, args=(0,), name="worker")
thread.start()
thread.join()
example.{function}(0)
"""


@pytest.fixture(name="fail")
def fail_fixture(tmp_path):
    (tmp_path / "example.py").write_text(EXAMPLE)

    def fail(function, setup=""):
        """Returns what a process prints that calls ``function`` in a thread and in
        itself, which fails both times."""
        code = CHILD.format(function=function, setup=setup)
        child = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True
        )
        assert child.returncode == 1
        return child.stderr

    return fail


def test_an_exception_that_passed_edited_code_is_printed_with_its_lines(fail):
    printed = fail("edited")
    thread, main = printed.split("ZeroDivisionError: division by zero\n")[:2]
    assert thread.startswith("Exception in thread worker:\nTraceback (most recent call")
    for part in (thread, main):
        assert "[synthesized constants]" in part
        assert "\n    return untouched(y)\n" in part
        assert "\n    return 1 / x\n" in part


def test_other_exceptions_are_printed_as_ever(fail):
    usual = fail("untouched", "tracebacks.install = lambda: None")
    assert fail("untouched") == usual
    assert "[synthesized constants]" not in usual


def test_hooks_of_others_stay(fail):
    printed = fail(
        "edited",
        "sys.excepthook = lambda *args: print('main', file=sys.stderr)\n"
        "threading.excepthook = lambda args: print('thread', file=sys.stderr)",
    )
    assert printed == "thread\nmain\n"
