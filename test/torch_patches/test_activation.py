# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""When the edits are applied: each test imports in a process of its own."""

import importlib.metadata
from pathlib import Path

import pytest

from executorch.torch_patches import installed
from executorch.torch_patches.edit import Replace
from executorch.torch_patches.errors import PatchError


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
        assert is_stock()
        import executorch.exir.synthesized_constants
        from executorch.torch_patches.activation import activate, is_active
        assert is_active()
        activate()
        assert lifted() == 1
        """,
        autoload=False,
    )


@pytest.mark.parametrize(
    "flags, first",
    [
        (["-O"], "executorch.exir.program._program"),
        (["-X", "importtime"], "executorch.exir.synthesized_constants"),
    ],
)
def test_it_does_not_matter_what_is_imported_first(flags, first, run):
    run(f"import {first}\nassert lifted() == 1", *flags)


def test_imports_and_activation_in_threads_do_not_wait_for_each_other(run):
    run(
        """
        import faulthandler, importlib, threading
        faulthandler.dump_traceback_later(120, exit=True)
        from executorch.torch_patches.activation import activate

        failures = []

        def attempt(action, *args):
            try:
                action(*args)
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=attempt, args=args)
            for args in [
                (importlib.import_module, "executorch.exir"),
                (activate,),
                (activate,),
                (importlib.import_module, "torch.export.unflatten"),
                (importlib.import_module, "executorch.exir"),
            ]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert lifted() == 1
        """
    )


# What does not fit


BREAK = {
    "version": """
        from executorch.torch_patches import installed
        installed.SUPPORTED["torch"] = ((9, 0), (9, 1))
        expected = ["torch 2.", "supported: >=9.0,<9.1"]
        """,
    "anchor": """
        from executorch.torch_patches import edits
        from executorch.torch_patches.edit import Replace
        real = edits.by_module()
        wrong = Replace("Verifier.check", "no such line", "", "Test.")
        real["torch._export.verifier"] = [wrong]
        edits.by_module = lambda: real
        expected = [
            "torch 2.", "verifier.py: ", "'no such line'", "'Verifier.check'", "0 times"
        ]
        """,
}


@pytest.mark.parametrize("what", BREAK)
def test_packages_that_the_edits_do_not_fit_stay_as_they_are(what, run):
    run(
        BREAK[what].replace("\n        ", "\n")
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    import executorch.exir
    import executorch.backends.xnnpack.partition.xnnpack_partitioner
(message,) = ours(caught)
assert all(part in message for part in expected), message
assert is_stock()
import io, traceback
try:
    import executorch.exir.synthesized_constants
except RuntimeError as error:
    assert type(error).__name__ == "PatchError"
    assert all(part in str(error) for part in expected), error
else:
    assert False, "the explicit import did not fail"
assert is_stock()

model = torch.nn.Linear(2, 2)
program = torch.export.export(model, (torch.ones(1, 2),))
assert executorch.exir.to_edge(program).to_executorch().buffer
"""
    )


def test_a_failure_at_a_later_import_leaves_that_module_whole(run):
    run(
        """
        from executorch.torch_patches import edits
        from executorch.torch_patches.edit import Insert
        late = "executorch.exir.backend.canonical_partitioners.config_partitioner"
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
        partition = module.ConfigerationBasedPartitioner.partition
        assert partition.__code__.co_filename == module.__file__
        assert lifted() == 1
        """
    )


def test_the_error_names_package_version_file_and_anchor(monkeypatch):
    edit = Replace("Verifier.check", "no such line", "", "Test.")
    monkeypatch.setattr(
        installed.edits,
        "by_module",
        lambda: {"torch._export.verifier": [edit], "torch.nowhere": [edit]},
    )
    torch_version = importlib.metadata.version("torch")
    with pytest.raises(PatchError) as caught:
        installed.find_targets.__wrapped__()
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("nothing was changed.")
    assert lines[1].startswith(f"  torch {torch_version}, ")
    assert lines[1].endswith(
        "verifier.py: anchor 'no such line' in 'Verifier.check' was found 0 times "
        "instead of once"
    )
    assert lines[2:] == [f"  torch {torch_version} has no module torch.nowhere"]


def test_a_missing_package_is_said_once(monkeypatch):
    monkeypatch.setattr(
        installed, "_version", lambda name: "2.13.1+cpu" if name == "torch" else ""
    )
    with pytest.raises(PatchError) as caught:
        installed.find_targets.__wrapped__()
    assert str(caught.value).splitlines()[1:] == [
        "  executorch (none) is installed; supported: >=1.5,<1.6"
    ]


@pytest.mark.parametrize(
    "version, fits",
    [
        ("2.13.0", True),
        ("2.13.0a0+git123", True),
        ("2.13", True),
        ("2.12.9", False),
        ("2.14.0.dev20260101", False),
        ("3.0", False),
        ("", False),
    ],
)
def test_versions(monkeypatch, version, fits):
    monkeypatch.setattr(installed, "_version", lambda name: version)
    monkeypatch.setattr(installed, "SUPPORTED", {"torch": ((2, 13), (2, 14))})
    assert bool(installed._version_problems()) is not fits


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
