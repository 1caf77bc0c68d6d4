# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import contextlib
import io
import json
from pathlib import Path
from typing import Any, Tuple

import pytest
import torch
from executorch.exir.synthesized_constants import Placement
from executorch.exir.synthesized_constants.cli import main
from executorch.exir.synthesized_constants.listing import compare_constants
from executorch.exir.synthesized_constants.reader import list_synthesized_constants
from executorch.exir.synthesized_constants.test.placing import lower, Positions, X
from torch.export import export, save


def run(*args: Any) -> Tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(arg) for arg in args])
        except SystemExit as stop:
            code = int(stop.code or 0)
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(export(Positions(), (X,)), tmp_path / "model.pt2")
    return tmp_path / "model.pt2"


def test_lower_puts_constants_where_it_is_told(model: Path, tmp_path: Path) -> None:
    for place, where, ptd in (
        ("external:tables", "external tables", "tables.ptd"),
        ("input", "input", None),
        ("input:defaults", "input defaults", "defaults.ptd"),
        ("program", "program", None),
    ):
        pte = tmp_path / "out.pte"
        args = ("lower", model, "-o", pte, "--backend", "none", "--placement", place)
        assert run(*args)[0] == 0
        files = ["--ptd", tmp_path / ptd] if ptd else []
        code, out, err = run("inspect", pte, "--json", *files)
        assert (code, err) == (0, "")
        rows = json.loads(out)
        assert {row["where"] for row in rows} == {where}
        (mask,) = [row for row in rows if row["bytes"] == 256]
        assert mask["shape"] == [8, 8] and mask["dim_order"] == [0, 1]
        assert {row["fill"] for row in rows} == {None, 1.0}


@pytest.mark.parametrize("place", ["program:unnamed", "graph"])
def test_lower_without_names(model: Path, tmp_path: Path, place: str) -> None:
    pte = tmp_path / "out.pte"
    assert run("lower", model, "-o", pte, "--placement", place)[0] == 0
    assert run("inspect", pte)[1] == "no named constants\n"


@pytest.mark.parametrize("place", ["here", "external:a/b", "input:a:b", ""])
def test_a_wrong_place_is_one_line(model: Path, tmp_path: Path, place: str) -> None:
    args = ("lower", model, "-o", tmp_path / "out.pte", "--placement", place)
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert "--placement" in err and err.count("\n") == 1


def test_inspect_lists_what_is_in_a_file_that_was_not_given(tmp_path: Path) -> None:
    (tmp_path / "out.pte").write_bytes(lower(Positions(), Placement.EXTERNAL).pte)
    code, out, err = run("inspect", tmp_path / "out.pte")
    assert (code, err) == (0, "")
    assert out.count("external _default_external_constant") == 3


def test_diff_shows_what_was_added_dropped_and_changed(tmp_path: Path) -> None:
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = torch.full((8, 8), float("-inf")).triu(1)
            return (x + mask).softmax(-1) + torch.arange(8) * 7.0

    def rule(constant: Any) -> Placement:
        return Placement.INPUT if constant.stored_bytes == 256 else Placement.PROGRAM

    first, second = lower(Positions()), lower(Other(), rule)
    paths = []
    for name, placed in (("a.pte", first), ("b.pte", second)):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(placed.pte)
    code, out, err = run("diff", *paths, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    (mask,) = [c.name for c in first.constants if c.stored_bytes == 256]
    old = {c.name for c in first.constants} - {mask}
    new = {c.name for c in second.constants} - {mask}
    assert found == {"added": sorted(new), "dropped": sorted(old), "changed": [mask]}
    _, text, _ = run("diff", *paths)
    lines = text.splitlines()
    assert [line[0] for line in lines[2:]] == ["-"] * len(old) + ["-", "+", "+"]
    assert [line.split()[:3] for line in lines if mask in line] == [
        ["-", mask, "program"],
        ["+", mask, "input"],
    ]
    assert run("diff", paths[0], paths[0])[1] == "the same named constants\n"


def test_another_content_under_one_name_is_a_change() -> None:
    constants = list_synthesized_constants(lower(Positions()).pte)
    again = list_synthesized_constants(lower(Positions()).pte)
    assert compare_constants(constants, again).changed == []
    value = again[0].tensor
    assert value is not None
    value += 1
    assert compare_constants(constants, again).changed == [again[0].name]


def test_diff_of_something_else_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.pte").write_bytes(lower(Positions()).pte)
    (tmp_path / "b.pte").write_text("something else")
    code, out, err = run("diff", tmp_path / "a.pte", tmp_path / "b.pte")
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {tmp_path / 'b.pte'}: not a .pte file")
