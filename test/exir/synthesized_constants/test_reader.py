# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

import random
import struct
import tempfile
import unittest
from pathlib import Path

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.synthesized_constants import (
    InvalidProgramError,
    read_synthesized_constants,
    SynthesizedConstantPolicy,
)
from executorch.exir.synthesized_constants.test.helpers import lower, lower_and_run
from torch.export import export

ALL = SynthesizedConstantPolicy(
    max_bytes=None, max_total_bytes=None, max_uniform_bytes=None
)


class Combine(torch.nn.Module):
    """Uses a tensor that the compiler knows in full."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        known = self.make()
        return x ^ known if known.dtype == torch.bool else x + known


class Mask(torch.nn.Module):
    def forward(self, x):
        return x + torch.arange(12).reshape(3, 4).tril(), x * torch.ones(3, 4)


def named_constants(make):
    """Name -> tensor, in a program whose input has the layout of what ``make`` gives."""
    x = torch.zeros_like(make())
    lowered = lower_and_run(Combine(make), (x,), flag=ALL)
    return read_synthesized_constants(lowered.executorch.buffer)


def mask_pte() -> bytes:
    program = export(Mask(), (torch.zeros(3, 4),))
    return bytes(lower(program).executorch.buffer)


class ReaderTest(unittest.TestCase):
    def test_dtypes(self):
        for dtype in (
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int8,
            torch.uint8,
            torch.int16,
            torch.int32,
            torch.int64,
            torch.bool,
        ):
            with self.subTest(dtype=dtype):

                def make(dtype=dtype):
                    return torch.arange(6).reshape(2, 3).to(dtype)

                (tensor,) = named_constants(make).values()
                self.assertEqual(tensor.dtype, dtype)
                self.assertTrue(torch.equal(tensor, make()))

    def test_rank_0(self):
        (tensor,) = named_constants(
            lambda: torch.full((), 2.5, dtype=torch.float64)
        ).values()
        self.assertEqual(tensor.dtype, torch.float64)
        self.assertEqual((tuple(tensor.shape), tensor.item()), ((), 2.5))

    def test_values_that_are_not_numbers_keep_their_bits(self):
        def make():
            zero = torch.arange(3.0) * -0.0
            return torch.cat([zero, zero.log(), zero.sqrt() / zero])

        (tensor,) = named_constants(make).values()
        self.assertEqual(
            tensor.view(torch.int32).tolist(), make().view(torch.int32).tolist()
        )

    def test_channels_last(self):
        def make():
            grid = torch.arange(120.0).reshape(2, 3, 4, 5)
            return grid.to(memory_format=torch.channels_last)

        (tensor,) = named_constants(make).values()
        self.assertTrue(tensor.is_contiguous(memory_format=torch.channels_last))
        self.assertTrue(torch.equal(tensor, make()))

    def test_several_methods_share_names_of_equal_constants(self):
        def program(size):
            return export(Combine(lambda: torch.arange(size)), (torch.arange(size),))

        lowered = lower(
            {"first": program(5), "second": program(5), "third": program(7)}, ALL
        )
        constants = read_synthesized_constants(lowered.executorch.buffer)
        self.assertEqual(sorted(t.numel() for t in constants.values()), [5, 7])

    def test_names_and_bytes_are_those_that_upstream_reads(self):
        pte = mask_pte()
        stored = deserialize_pte_binary(pte).named_data
        constants = read_synthesized_constants(pte)
        self.assertGreaterEqual(len(constants), 2)
        for name, tensor in constants.items():
            data = stored.buffers[stored.pte_data[name].buffer_index]
            flat = tensor.contiguous().flatten().view(torch.uint8)
            self.assertEqual(bytes(flat.tolist()), bytes(data))

    def test_path_and_buffers_are_read_alike(self):
        pte = mask_pte()
        names = list(read_synthesized_constants(pte))
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.pte"
            path.write_bytes(pte)
            for source in (path, str(path), bytearray(pte), memoryview(pte)):
                with self.subTest(source=type(source)):
                    self.assertEqual(list(read_synthesized_constants(source)), names)

    def test_tensors_own_their_bytes(self):
        pte = mask_pte()
        for tensor in read_synthesized_constants(pte).values():
            tensor.zero_()
        again = read_synthesized_constants(pte)
        self.assertTrue(all(tensor.any() for tensor in again.values()))

    def test_program_without_constants_has_none(self):
        class Add(torch.nn.Module):
            def forward(self, x):
                return x + x

        pte = to_edge(export(Add(), (torch.zeros(2),))).to_executorch().buffer
        self.assertEqual(read_synthesized_constants(pte), {})

    def test_named_mutable_buffer_is_not_a_constant(self):
        class Counter(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.ones(3))

            def forward(self, x):
                self.count.add_(x)
                return self.count + torch.arange(3.0)

        program = export(Counter(), (torch.zeros(3),))
        lowered = lower(program)
        manager = lowered.edge.to_executorch(
            ExecutorchBackendConfig(emit_mutable_buffer_names=True)
        )
        named = [
            value.val.extra_tensor_info.fully_qualified_name
            for value in manager.executorch_program.execution_plan[0].values
            if getattr(value.val, "extra_tensor_info", None)
        ]
        self.assertIn("count", named)
        self.assertEqual(
            list(read_synthesized_constants(manager.buffer)),
            [c.name for c in lowered.lifted],
        )


class DamagedFileTest(unittest.TestCase):
    """Damage gives one type of error, whatever it hits."""

    def setUp(self):
        self.pte = mask_pte()

    def assertReadsOrRefuses(self, data: bytes) -> bool:
        """Asserts that reading does one of both; returns whether it refused."""
        try:
            constants = read_synthesized_constants(data)
        except InvalidProgramError as error:
            self.assertNotIn("\n", str(error))
            return True
        for tensor in constants.values():
            self.assertLessEqual(tensor.nbytes, len(data))
        return False

    def test_other_files_are_refused(self):
        for data in (b"", b"PK\x03\x04", b"ET", bytes(100), b"ET12" * 9):
            with self.subTest(data=data[:8]):
                with self.assertRaises(InvalidProgramError):
                    read_synthesized_constants(data)

    def test_error_is_a_value_error_and_says_what_is_wrong(self):
        with self.assertRaisesRegex(ValueError, "not a .pte file"):
            read_synthesized_constants(b"something else")

    def test_missing_and_empty_files(self):
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "model.pte"
            with self.assertRaises(FileNotFoundError):
                read_synthesized_constants(path)
            path.touch()
            with self.assertRaises(InvalidProgramError):
                read_synthesized_constants(path)

    def test_every_truncation_is_refused(self):
        for size in range(0, len(self.pte), 7):
            with self.subTest(size=size):
                with self.assertRaises(InvalidProgramError):
                    read_synthesized_constants(self.pte[:size])

    def test_changed_bytes_are_read_or_refused(self):
        rng = random.Random(0)
        refused = 0
        for case in range(300):
            data = bytearray(self.pte)
            for _ in range(rng.choice((1, 1, 4, 32))):
                data[rng.randrange(len(data))] = rng.randrange(256)
            with self.subTest(case=case):
                refused += self.assertReadsOrRefuses(bytes(data))
        self.assertGreater(refused, 0)

    def test_large_numbers_are_read_or_refused(self):
        rng = random.Random(1)
        refused = 0
        for case in range(300):
            data = bytearray(self.pte)
            at = rng.randrange(len(data) - 8) & ~3
            struct.pack_into("<I", data, at, rng.choice((0xFFFFFFFF, 1 << 31, 1 << 24)))
            with self.subTest(case=case, at=at):
                refused += self.assertReadsOrRefuses(bytes(data))
        self.assertGreater(refused, 0)

    def test_header_that_states_more_than_there_is_is_refused(self):
        for at in (16, 24, 32):  # sizes of program, offset and size of segments
            data = bytearray(self.pte)
            struct.pack_into("<Q", data, at, 1 << 62)
            with self.subTest(at=at):
                with self.assertRaisesRegex(InvalidProgramError, "damaged"):
                    read_synthesized_constants(data)
