# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import random
import tracemalloc
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest
import torch
from executorch.exir.synthesized_constants import (
    InvalidProgramError,
    Placement,
    read_synthesized_constants,
    synthesized_inputs,
)
from executorch.exir.synthesized_constants.flat_tensor import read_names
from executorch.exir.synthesized_constants.manifest import read_manifest
from executorch.exir.synthesized_constants.reader import list_synthesized_constants
from executorch.exir.synthesized_constants.test.placing import (
    lower,
    Placed,
    Positions,
    two_methods,
)

MASK = torch.full((8, 8), float("-inf")).triu(1)


@pytest.fixture(scope="module")
def programs() -> Dict[str, Placed]:
    return {
        "program": lower(Positions()),
        "delegate": lower(Positions(), delegate=True),
        "external": lower(Positions(), Placement.external("tables")),
        "external delegate": lower(Positions(), Placement.external("tables"), True),
        "input": lower(two_methods(), Placement.INPUT),
        "input tag": lower(two_methods(), Placement.input("tables")),
    }


@pytest.mark.parametrize(
    "case, where",
    [
        ("program", {"program"}),
        ("delegate", {"delegate"}),
        ("external", {"external tables"}),
        ("external delegate", {"external tables"}),
        ("input", {"input"}),
        ("input tag", {"input tables"}),
    ],
)
def test_each_placement_is_read_back(
    programs: Dict[str, Placed], case: str, where: Any
) -> None:
    placed = programs[case]
    files = list(placed.ptd.values())
    stored = {c.name: c for c in list_synthesized_constants(placed.pte, files)}
    assert {c.where for c in stored.values()} <= where
    constants = read_synthesized_constants(placed.pte, files or None)
    expected = {c.name: c for c in placed.constants}
    for name, tensor in constants.items():
        if name in expected:
            assert tuple(tensor.shape) == expected[name].stored_shape
            assert tensor.dtype == expected[name].dtype
    (mask,) = {n for n, c in expected.items() if c.stored_bytes == 256}
    assert torch.equal(constants[mask], MASK)


def test_inputs_have_their_default_values(programs: Dict[str, Placed]) -> None:
    placed = programs["input"]
    found = read_synthesized_constants(placed.pte)
    for method in ("first", "second"):
        for name, value in synthesized_inputs(placed.program, method).items():
            assert torch.equal(found[name], value)


def test_without_the_data_file_its_constants_are_listed_but_not_read(
    programs: Dict[str, Placed]
) -> None:
    pte = programs["external"].pte
    assert read_synthesized_constants(pte) == {}
    assert {c.tensor for c in list_synthesized_constants(pte)} == {None}
    assert len(list_synthesized_constants(pte)) == 3


def test_a_data_file_of_another_program_is_an_error(
    programs: Dict[str, Placed], tmp_path: Path
) -> None:
    class Other(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(8.0).cos()

    other = lower(Other(), Placement.EXTERNAL).ptd.values()
    with pytest.raises(InvalidProgramError, match="should have the constant"):
        read_synthesized_constants(programs["external"].pte, list(other))
    with pytest.raises(InvalidProgramError, match="not a .ptd file"):
        read_synthesized_constants(programs["external"].pte, programs["program"].pte)
    with pytest.raises(OSError):
        read_synthesized_constants(programs["external"].pte, tmp_path / "none.ptd")


def test_data_files_are_read_as_upstream_reads_them(
    programs: Dict[str, Placed]
) -> None:
    from executorch.exir._serialize._cord import Cord
    from executorch.extension.flat_tensor.serialize.serialize import (
        FlatTensorConfig,
        FlatTensorSerializer,
    )

    for case in ("external", "external delegate", "input tag"):
        (data,) = programs[case].ptd.values()
        payload = FlatTensorSerializer(FlatTensorConfig()).deserialize(Cord(data))
        names = read_names(data)
        assert names.keys() == payload.named_data.keys()
        for name, entry in names.items():
            theirs = payload.named_data[name]
            held = data[entry.offset : entry.offset + entry.size]
            assert held == payload.buffers[theirs.buffer_index]
            if theirs.tensor_layout is not None:
                assert entry.scalar_type == theirs.tensor_layout.scalar_type
                assert entry.sizes == theirs.tensor_layout.sizes
                assert entry.dim_order == theirs.tensor_layout.dim_order


# --- Damaged files -------------------------------------------------------------------


def damage(data: bytes, rng: random.Random) -> bytes:
    """A truncation, or a few bytes flipped."""
    if rng.random() < 0.3:
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        # Half of the hits go to the tables, which are at the start.
        end = len(changed) if rng.random() < 0.5 else min(len(changed), 1500)
        changed[rng.randrange(end)] ^= 1 << rng.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("case", ["program", "delegate", "external", "input tag"])
def test_damage_to_a_program_is_read_or_refused(
    programs: Dict[str, Placed], case: str
) -> None:
    placed = programs[case]
    files = list(placed.ptd.values())
    fuzz(placed.pte, lambda data: read_synthesized_constants(data, files), 700)


@pytest.mark.parametrize("case", ["external", "external delegate", "input tag"])
def test_damage_to_a_data_file_is_read_or_refused(
    programs: Dict[str, Placed], case: str
) -> None:
    placed = programs[case]
    (file,) = placed.ptd.values()
    fuzz(file, lambda data: read_synthesized_constants(placed.pte, data), 400)


def fuzz(data: bytes, read: Callable[[bytes], Any], cases: int) -> None:
    """Damages a file in many ways and reads it each time."""
    rng = random.Random(0)
    refused = 0
    tracemalloc.start()
    try:
        for case in range(cases):
            try:
                constants = read(damage(data, rng))
                assert sum(t.nbytes for t in constants.values()) <= 8 * len(data), case
            except InvalidProgramError as error:
                refused += 1
                assert "\n" not in str(error)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < refused < cases
    assert peak < 64 << 20


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        '{"a": 3}',
        '{"a": [6, [1], [0]]}',
        '{"a": ["6", [1], [0], "input"]}',
        '{"a": [6, [-1], [0], "input"]}',
        '{"a": [6, [1.5], [0], "input"]}',
        '{"a": [6, 1, "0", "input"]}',
        '{"a": [6, [1], [0], "nowhere"]}',
        '{"a": [6, [1], [0], "external a/b"]}',
        '{"a": [6, [1], [0], "input a b"]}',
        "{",
        "[" * 100000,
    ],
)
def test_a_wrong_manifest_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read_manifest(text.encode())


def test_a_list_that_states_more_than_there_is_is_refused() -> None:
    class Table(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.arange(8.0).cos()

    (data,) = lower(Table(), Placement.EXTERNAL).ptd.values()
    refused: List[Tuple[int, str]] = []
    for at in range(0, 300, 4):
        changed = bytearray(data)
        changed[at : at + 4] = (0x7FFFFFFF).to_bytes(4, "little")
        try:
            read_names(bytes(changed))
        except ValueError as error:
            refused.append((at, str(error)))
    assert any("beyond the end" in message for _, message in refused)
