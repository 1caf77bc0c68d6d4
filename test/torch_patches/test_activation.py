# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""When the edits are applied: each test imports in a process of its own."""

from pathlib import Path

import pytest


def test_no_import_of_ours_is_needed_and_children_inherit(run):
    run(
        """
        import os
        import torch

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            from executorch.exir import EdgeCompileConfig
        assert not ours(caught)
        assert EdgeCompileConfig(lift_synthesized_constants=True)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if lifted() == 1 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert lifted() == 1
        """
    )


def test_an_explicit_import_does_without_the_entry_point(run):
    run(
        """
        import pickle
        assert is_stock()
        from executorch.exir import EdgeCompileConfig
        of_stock = pickle.dumps(EdgeCompileConfig(_skip_dim_order=True))

        import executorch.exir.synthesized_constants
        from executorch.torch_patches.activation import activate, is_active
        assert is_active()
        activate()
        assert lifted() == 1
        read = pickle.loads(of_stock)
        assert read == EdgeCompileConfig(_skip_dim_order=True)
        assert read.lift_synthesized_constants is False
        """,
        autoload=False,
    )


@pytest.mark.parametrize(
    "flags, first",
    [
        # An edited module that is half imported when executorch.exir is complete.
        (["-OO"], "executorch.backends.vulkan.utils"),
        (["-X", "importtime"], "executorch.exir.synthesized_constants"),
    ],
)
def test_it_does_not_matter_what_is_imported_first(flags, first, run):
    run(
        f"""
        warnings.filterwarnings("error", "synthesized constants")
        import {first}
        assert lifted() == 1
        from executorch.backends.vulkan.utils import update_program_state_dict as edited
        assert "[synthesized constants]" in edited.__code__.co_filename
        """,
        *flags,
    )


def test_imports_and_activation_in_threads_do_not_wait_for_each_other(run):
    run(
        """
        import faulthandler, importlib, threading, time
        faulthandler.dump_traceback_later(120, exit=True)
        warnings.filterwarnings("error", "synthesized constants")
        from executorch.torch_patches.activation import activate

        failures = []

        def attempt(action, *args):
            try:
                action(*args)
            except BaseException as error:
                failures.append(error)

        others = [
            threading.Thread(target=attempt, args=args)
            for args in [
                (importlib.import_module, "executorch.exir.synthesized_constants"),
                (activate,),
                (importlib.import_module, "executorch.exir.synthesized_constants"),
                (activate,),
                # Not a module inside torch: of two threads that begin torch and such a
                # one, one fails, with and without edits.
                (importlib.import_module, "torch"),
                (importlib.import_module, "executorch.exir"),
            ]
        ]

        # Starts others when executorch.exir is locked, and when it is there by half.
        starts = {"executorch.exir": others[:2], "executorch.exir.capture": others[2:]}

        class Start:
            def find_spec(self, name, path=None, target=None):
                started = starts.pop(name, ())
                for thread in started:
                    thread.start()
                if started:
                    time.sleep(0.5)

        sys.meta_path.insert(0, Start())
        attempt(importlib.import_module, "executorch.exir")
        for thread in others:
            thread.join()
        assert not failures, failures
        assert lifted() == 1
        """
    )


def test_a_fork_and_an_interrupt_wait_for_changes_under_way(run):
    run(
        """
        import importlib, os, signal, threading, time
        import executorch.exir
        from executorch.torch_patches import live

        commit, begun = live.commit, threading.Event()

        def slow_commit(prepared):
            begun.set()
            time.sleep(0.5)
            commit(prepared)

        def interrupted_commit(prepared):
            live.commit = commit
            raise KeyboardInterrupt

        def is_edited(name, *owners):
            holder = importlib.import_module(name)
            for owner in owners:
                holder = getattr(holder, owner)
            return "[synthesized constants]" in holder.__code__.co_filename

        live.commit = slow_commit
        late = ("torch.export._unlift", "_unlift_exported_program_lifted_states")
        thread = threading.Thread(target=is_edited, args=late)
        thread.start()
        begun.wait()
        pid = os.fork()
        if pid == 0:
            signal.alarm(120)  # ends a child that waits for a lock
            size = "executorch.devtools.size_analysis_tool.size_analysis_tool"
            os._exit(not is_edited(size, "_get_nested_model_data"))
        assert os.waitpid(pid, 0)[1] == 0
        thread.join()

        live.commit = interrupted_commit
        late = ("executorch.backends.transforms.utils", "create_mutable_buffer")
        try:
            is_edited(*late)
        except KeyboardInterrupt:
            assert is_edited(*late)
        else:
            assert False, "the interrupt was lost"
        """
    )


def test_a_failure_at_a_later_import_leaves_that_module_whole(run):
    run(
        """
        from executorch.torch_patches import edits
        from executorch.torch_patches.edit import Insert
        late = "executorch.backends.transforms.utils"
        real = edits.by_module()
        anchor = "from torch._export.utils import"
        wrong = Insert("", anchor, "# more\\n", "Test.", before=True, live="1 / 0")
        real[late] = [e for e in real[late] if e.owner] + [wrong]
        edits.by_module = lambda: real

        import executorch.exir, importlib
        assert late not in sys.modules
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module = importlib.import_module(late)
        (message,) = ours(caught)
        assert "division by zero" in message
        function = module.create_mutable_buffer
        assert function.__code__.co_filename == module.__file__
        assert lifted() == 1
        """
    )


# The flag off


PROGRAMS = Path(__file__).with_name("lowered_programs.py")


def test_with_the_flag_off_every_byte_is_that_of_the_stock_packages(run):
    programs = PROGRAMS.read_text(encoding="utf-8")
    stock = run(programs + "assert is_stock()\n", autoload=False)
    ours = run(programs + "assert not is_stock()\n")
    assert len(stock.splitlines()) == 12
    assert ours.splitlines()[:6] == stock.splitlines()[:6]
    # There is nothing to lift in one of them.
    same = set(ours.splitlines()[6:]) & set(stock.splitlines()[6:])
    assert [line.split()[1] for line in same] == ["dynamic"]
