# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Releases of torch and executorch that the edits do not fit: imports work, the packages
stay as they are, and the message says why.

Where the installed releases are not supported (``make test-versions``), what is tested
is these; elsewhere the process is told that they are not.
"""

import importlib.metadata
import sys
import types

import pytest

from executorch.torch_patches import installed
from executorch.torch_patches.edit import Replace
from executorch.torch_patches.errors import PatchError

VERSIONS = {name: importlib.metadata.version(name) for name in installed.SUPPORTED}
UNSUPPORTED = installed._version_problems()

# What makes the packages unfit -> code that makes them so, and what the message says
UNFIT = {
    "version": (
        """
from executorch.torch_patches import installed
installed.SUPPORTED["torch"] = ((9, 0), (9, 1))
""",
        [f"torch {VERSIONS['torch']} is installed; supported: >=9.0,<9.1"],
    ),
    "anchor": (
        """
from executorch.torch_patches import edits
from executorch.torch_patches.edit import Replace
real = edits.by_module()
real["torch._export.verifier"] = [Replace("Verifier.check", "no such line", "", "Test.")]
edits.by_module = lambda: real
""",
        [
            f"torch {VERSIONS['torch']}, ",
            "verifier.py: anchor 'no such line' in 'Verifier.check' was found 0 times",
        ],
    ),
}
if UNSUPPORTED:
    UNFIT = {"installed": ("", UNSUPPORTED)}

LOWER = """
import hashlib
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.sigmoid(x) + torch.arange(4) + torch.full((2, 4), 0.5)

program = torch.export.export(Model(), (torch.ones(2, 4),))
lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
print(hashlib.sha256(lowered.to_executorch().buffer).hexdigest())
assert is_stock()
"""


@pytest.fixture(scope="module")
def stock(run):
    """Returns what LOWER prints without this package."""
    return run(LOWER, autoload=False)


@pytest.mark.parametrize("what", UNFIT)
def test_one_warning_says_why_and_the_packages_stay_as_they_are(what, run, stock):
    setup, expected = UNFIT[what]
    printed = run(
        setup
        + f"expected = {expected!r}"
        + """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
    import executorch.exir
    import executorch.backends.xnnpack.partition.xnnpack_partitioner
(message,) = ours(caught)
assert all(part in message for part in expected), message
assert "EdgeCompileConfig has no lift_synthesized_constants" in message
assert is_stock()

try:
    import executorch.exir.synthesized_constants
except RuntimeError as error:
    assert type(error).__name__ == "PatchError"
    assert str(error) in message, error
else:
    assert False, "the explicit import did not fail"
"""
        + LOWER
    )
    assert len(stock.strip()) == 64
    assert printed == stock


@pytest.mark.parametrize("what", UNFIT)
def test_import_torch_works_where_warnings_are_errors(what, run):
    setup, _ = UNFIT[what]
    run(setup + "import torch; assert torch.ones(1)", "-W", "error")


def test_import_torch_works_where_what_this_package_needs_is_missing(run):
    run(
        """
        sys.modules["wrapt"] = None  # the same as if it were not installed
        import logging
        messages = []
        handler = logging.Handler()
        handler.emit = lambda record: messages.append(record.getMessage())
        logging.getLogger("executorch.torch_patches.activation").addHandler(handler)
        import torch
        (message,) = messages
        assert "synthesized constants are not available" in message
        assert "wrapt" in message
        assert torch.ones(1)
        """,
        "-W",
        "error",
    )


# The message


def test_it_names_package_version_file_and_anchor(monkeypatch):
    edit = Replace("Verifier.check", "no such line", "", "Test.")
    monkeypatch.setattr(
        installed.edits,
        "by_module",
        lambda: {"torch._export.verifier": [edit], "torch.nowhere": [edit]},
    )
    monkeypatch.setattr(installed, "_version", fake("2.13.1", "1.4.0"))
    first, anchor, module = message_of_find_targets()
    assert first.endswith("EdgeCompileConfig has no lift_synthesized_constants.")
    assert anchor.startswith("  torch 2.13.1, ")
    assert anchor.endswith(
        "verifier.py: anchor 'no such line' in 'Verifier.check' was found 0 times "
        "instead of once"
    )
    assert module == "  torch 2.13.1 has no source file of torch.nowhere"


def test_a_module_that_a_wheel_may_lack_is_no_problem(monkeypatch):
    edit = Replace("f", "a", "b", "Test.", optional=True)
    monkeypatch.setattr(
        installed.edits, "by_module", lambda: {"executorch.nowhere": [edit]}
    )
    monkeypatch.setattr(installed, "_version", fake("2.13.1", "1.4.0"))
    assert installed.find_targets.__wrapped__() == ()


def test_it_names_a_module_of_which_only_the_compiled_file_is_installed(monkeypatch):
    compiled = types.ModuleType("torch.compiled")
    compiled.__file__ = "compiled.pyc"
    monkeypatch.setitem(sys.modules, "torch.compiled", compiled)
    edit = Replace("f", "a", "b", "Test.")
    monkeypatch.setattr(
        installed.edits, "by_module", lambda: {"torch.compiled": [edit]}
    )
    monkeypatch.setattr(installed, "_version", fake("2.13.1", "1.4.0"))
    assert message_of_find_targets()[1:] == [
        "  torch 2.13.1 has no source file of torch.compiled"
    ]


@pytest.mark.parametrize(
    "torch, executorch, problems",
    [
        (
            "2.12.1+cu130",
            "1.5.1",
            ["torch 2.12.1+cu130 is installed; supported: >=2.13,<2.15"],
        ),
        ("2.13.0", "1.3.1", ["executorch 1.3.1 is installed; supported: >=1.4,<1.6"]),
        ("2.14.1", "1.6.0", ["executorch 1.6.0 is installed; supported: >=1.4,<1.6"]),
        ("2.13.0", "", ["executorch is not installed; supported: >=1.4,<1.6"]),
        (
            "3.0",
            "2.0",
            [
                "torch 3.0 is installed; supported: >=2.13,<2.15",
                "executorch 2.0 is installed; supported: >=1.4,<1.6",
            ],
        ),
    ],
)
def test_of_a_release_it_names_the_supported_ones_and_no_anchors(
    monkeypatch, torch, executorch, problems
):
    edit = Replace("Verifier.check", "no such line", "", "Test.")
    monkeypatch.setattr(
        installed.edits, "by_module", lambda: {"torch._export.verifier": [edit]}
    )
    monkeypatch.setattr(installed, "_version", fake(torch, executorch))
    assert message_of_find_targets()[1:] == [f"  {problem}" for problem in problems]


def fake(torch, executorch):
    return {"torch": torch, "executorch": executorch}.__getitem__


def message_of_find_targets():
    with pytest.raises(PatchError) as caught:
        installed.find_targets.__wrapped__()
    return str(caught.value).splitlines()


# Which releases


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


@pytest.mark.parametrize("version, newer", [("1.4.1", 0), ("1.5.0", 1), ("1.10.0", 1)])
def test_a_release_has_the_edits_that_it_needs(monkeypatch, version, newer):
    always = Replace("a", "b", "c", "Test.")
    old = Replace("a", "f", "g", "Test.", until=(1, 5))
    new = Replace("a", "d", "e", "Test.", since=(1, 5))
    monkeypatch.setattr(
        installed.edits, "by_module", lambda: {"executorch.x": [always, old, new]}
    )
    monkeypatch.setattr(installed, "_version", lambda name: version)
    wanted = (always, new if newer else old)
    assert installed.installed_edits() == {"executorch.x": wanted}


def test_a_module_that_a_release_lacks_is_left_out(monkeypatch):
    new = Replace("a", "d", "e", "Test.", since=(1, 5))
    monkeypatch.setattr(installed.edits, "by_module", lambda: {"executorch.x": [new]})
    monkeypatch.setattr(installed, "_version", lambda name: "1.4.1")
    assert installed.installed_edits() == {}


def test_what_the_wheel_requires_is_what_is_supported():
    required = importlib.metadata.requires("executorch-synthesized-constants")
    for package, ((low, low_minor), (high, high_minor)) in installed.SUPPORTED.items():
        assert f"{package}<{high}.{high_minor},>={low}.{low_minor}" in required
