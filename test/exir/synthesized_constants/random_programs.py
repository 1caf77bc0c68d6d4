# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

"""Random programs over creators, shape ops, pointwise ops, reductions and inputs.

A program is a list of steps; each appends one tensor to a pool that begins with the
inputs. The steps are plain data, so that hypothesis can shrink and print them. Values
stay small integers (in any dtype) wherever an input takes part, so that eager and
portable kernels agree bit for bit whatever the order of summation; transcendental ops
are applied to values that are small enough not to overflow.
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

import torch
from hypothesis import strategies as st

Step = Tuple[Any, ...]

DTYPES = (
    torch.float32,
    torch.float32,
    torch.int64,
    torch.bool,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.uint8,
    torch.float64,
)
SHAPES = (
    (),
    (1,),
    (3,),
    (4,),
    (2, 3),
    (4, 4),
    (1, 4),
    (3, 1),
    (0, 3),
    (2, 1, 3),
    (1, 3, 4),
    (2, 3, 4),
    (1, 2, 3, 4),
    (2, 3, 1, 4),
    (1, 1, 2, 2),
    (16, 16),
)


@dataclass(frozen=True)
class RandomProgram:
    """Inputs by shape and layout, steps, and which values are returned."""

    inputs: Tuple[Tuple[Tuple[int, ...], bool], ...]
    steps: Tuple[Step, ...]
    outputs: Tuple[int, ...]

    def module(self) -> torch.nn.Module:
        """The program as a module."""
        return _Module(self)

    def arguments(self, seed: int = 0) -> Tuple[torch.Tensor, ...]:
        """Inputs of small integers."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for shape, channels_last in self.inputs:
            x = torch.randint(-3, 4, shape, generator=generator).to(torch.float32)
            if channels_last and x.dim() == 4:
                x = x.contiguous(memory_format=torch.channels_last)
            made.append(x)
        return tuple(made)


class _Module(torch.nn.Module):
    def __init__(self, program: RandomProgram) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        pool = list(inputs)
        for step in self.program.steps:
            pool.append(run_step(step, pool))
        return tuple(pool[i] for i in self.program.outputs)


def run_step(step: Step, pool: List[torch.Tensor]) -> torch.Tensor:
    """Computes one step over the values so far."""
    name, *arguments = step
    return _OPS[name](pool, *arguments)


def _small(x: torch.Tensor) -> torch.Tensor:
    """Keeps values in a range in which every dtype here counts exactly."""
    return x.clamp(-3, 3) if x.dtype not in (torch.bool, torch.uint8) else x


def _where(p: List[torch.Tensor], c: int, a: int, b: int) -> torch.Tensor:
    return torch.where(p[c] > 0, p[a], p[b])


def _assign(p: List[torch.Tensor], base: int, value: int) -> torch.Tensor:
    out = p[base].clone()
    out[..., 0] = p[value].sum().to(out.dtype) if out.dtype != torch.bool else True
    return out


def _scatter_zeros(p: List[torch.Tensor], value: int) -> torch.Tensor:
    flat = p[value].reshape(-1)
    out = torch.zeros(flat.numel() + 2, dtype=flat.dtype)
    index = torch.arange(flat.numel())
    return out.index_put((index,), flat)


_OPS: Dict[str, Callable[..., torch.Tensor]] = {
    "full": lambda p, shape, v, dt: torch.full(shape, v, dtype=dt),
    "zeros": lambda p, shape, dt: torch.zeros(shape, dtype=dt),
    "ones": lambda p, shape, dt: torch.ones(shape, dtype=dt),
    "arange": lambda p, n, dt: torch.arange(n, dtype=dt),
    "eye": lambda p, n, dt: torch.eye(n, dtype=dt),
    "scalar": lambda p, v, dt: torch.scalar_tensor(v, dtype=dt),
    "full_like": lambda p, a, v: torch.full_like(p[a], v),
    "zeros_like": lambda p, a: torch.zeros_like(p[a]),
    "ones_like": lambda p, a: torch.ones_like(p[a]),
    "new_full": lambda p, a, shape, v: p[a].new_full(shape, v),
    "tril": lambda p, n, k: torch.ones(n, n).tril(k),
    "to": lambda p, a, dt: _small(p[a]).to(dt),
    "neg": lambda p, a: -p[a] if p[a].dtype != torch.bool else ~p[a],
    # The portable kernel leaves the sign of -0.0 as it is.
    "abs": lambda p, a: p[a].abs() + 0 if p[a].dtype != torch.bool else p[a],
    "cos": lambda p, a: torch.cos(_small(p[a]).float()),
    "add": lambda p, a, b: _small(p[a]) + _small(p[b]),
    "sub": lambda p, a, b: _small(p[a]).float() - _small(p[b]).float(),
    "mul": lambda p, a, b: _small(p[a]) * _small(p[b]),
    "add_scalar": lambda p, a, v: _small(p[a]) + v,
    "rsub": lambda p, a: 1 - _small(p[a]).float(),
    "le": lambda p, a, b: p[a] <= p[b],
    "maximum": lambda p, a, b: torch.maximum(p[a], p[b].to(p[a].dtype)),
    "where": _where,
    "masked_fill": lambda p, a, c, v: p[a].masked_fill(p[c] > 0, v),
    "expand": lambda p, a, shape: p[a].expand(shape),
    "unsqueeze": lambda p, a, d: p[a].unsqueeze(d),
    "squeeze": lambda p, a, d: p[a].squeeze(d),
    "permute": lambda p, a, dims: p[a].permute(dims),
    "select": lambda p, a, d, i: p[a].select(d, i),
    "slice": lambda p, a, d, s, e, k: p[a][(slice(None),) * d + (slice(s, e, k),)],
    "reshape": lambda p, a, shape: p[a].reshape(shape),
    "flip": lambda p, a, dims: p[a].flip(dims),
    "repeat": lambda p, a, times: p[a].repeat(times),
    "cat": lambda p, a, b, d: torch.cat([p[a], p[b].to(p[a].dtype)], d),
    "stack": lambda p, a, b, d: torch.stack([p[a], p[b].to(p[a].dtype)], d),
    "sum": lambda p, a, d, keep: _small(p[a]).float().sum(d, keepdim=keep),
    "amax": lambda p, a, d: p[a].amax(d),
    "cumsum": lambda p, a, d: _small(p[a]).float().cumsum(d),
    "index": lambda p, a, i: p[a][torch.tensor(i)],
    "assign": _assign,
    "scatter_zeros": _scatter_zeros,
    "channels_last": lambda p, a: p[a].contiguous(memory_format=torch.channels_last),
}


@st.composite
def random_programs(draw: st.DrawFn, max_steps: int = 10) -> RandomProgram:
    """Draws programs that run in eager."""
    inputs = tuple(
        (draw(st.sampled_from(SHAPES)), draw(st.booleans()))
        for _ in range(draw(st.integers(1, 2)))
    )
    program = RandomProgram(inputs, (), ())
    pool = list(program.arguments())
    steps: List[Step] = []
    for _ in range(draw(st.integers(2, max_steps))):
        step = draw(_a_step(pool))
        try:
            value = run_step(step, pool)
        except (RuntimeError, IndexError, ValueError, TypeError):
            continue  # shapes or dtypes that do not go together
        if value.numel() > 1 << 12 or value.dim() > 5:
            continue
        steps.append(step)
        pool.append(value)
    count = draw(st.integers(1, 3))
    outputs = [len(pool) - 1]
    outputs += [draw(st.integers(0, len(pool) - 1)) for _ in range(count - 1)]
    return RandomProgram(inputs, tuple(steps), tuple(outputs))


def _a_step(pool: List[torch.Tensor]) -> st.SearchStrategy[Step]:
    # Later values are likelier: chains grow deep.
    value = st.one_of(
        st.integers(max(0, len(pool) - 3), len(pool) - 1),
        st.integers(0, len(pool) - 1),
    )
    dtype = st.sampled_from(DTYPES)
    shape = st.sampled_from(SHAPES)
    number = st.sampled_from((0, 1, 2, -1, 0.5, -0.0, True))
    size = st.sampled_from((1, 3, 4, 16))
    creators = st.one_of(
        st.tuples(st.just("full"), shape, number, dtype),
        st.tuples(st.just("zeros"), shape, dtype),
        st.tuples(st.just("ones"), shape, dtype),
        st.tuples(st.just("arange"), size, dtype),
        st.tuples(st.just("eye"), size, dtype),
        st.tuples(st.just("scalar"), number, dtype),
        st.tuples(st.just("full_like"), value, number),
        st.tuples(st.just("zeros_like"), value),
        st.tuples(st.just("ones_like"), value),
        st.tuples(st.just("new_full"), value, shape, number),
        st.tuples(st.just("tril"), size, st.integers(-1, 1)),
    )
    pointwise = st.one_of(
        *(st.tuples(st.just(n), value) for n in ("neg", "abs", "cos", "rsub")),
        *(st.tuples(st.just(n), value, value) for n in ("add", "sub", "mul", "le")),
        st.tuples(st.just("to"), value, dtype),
        st.tuples(st.just("add_scalar"), value, number),
        st.tuples(st.just("maximum"), value, value),
        st.tuples(st.just("where"), value, value, value),
        st.tuples(st.just("masked_fill"), value, value, number),
    )
    return st.one_of(creators, pointwise, value.flatmap(lambda a: _shape_step(a, pool)))


def _shape_step(a: int, pool: List[torch.Tensor]) -> st.SearchStrategy[Step]:
    x = pool[a]
    rank = x.dim()
    at = st.just(a)
    other = st.integers(0, len(pool) - 1)
    choices: List[st.SearchStrategy[Step]] = [
        st.tuples(st.just("unsqueeze"), at, st.integers(-rank - 1, rank)),
        st.tuples(st.just("reshape"), at, st.sampled_from(_reshapes(x))),
        st.tuples(st.just("expand"), at, st.sampled_from(_expansions(x))),
        st.tuples(
            st.just("repeat"),
            at,
            st.lists(st.integers(1, 2), min_size=rank, max_size=rank + 1).map(tuple),
        ),
        st.tuples(st.just("scatter_zeros"), at),
    ]
    if rank:
        dim = st.integers(0, rank - 1)
        choices += [
            st.tuples(st.just("squeeze"), at, dim),
            st.tuples(st.just("permute"), at, st.permutations(range(rank)).map(tuple)),
            st.tuples(st.just("select"), at, dim, st.just(0)),
            st.tuples(
                st.just("slice"),
                at,
                dim,
                st.integers(0, 2),
                st.integers(1, 4),
                st.integers(1, 2),
            ),
            st.tuples(st.just("flip"), at, dim.map(lambda d: (d,))),
            st.tuples(st.just("cat"), at, other, dim),
            st.tuples(st.just("cat"), at, at, dim),
            st.tuples(st.just("stack"), at, other, dim),
            st.tuples(st.just("sum"), at, dim, st.booleans()),
            st.tuples(st.just("amax"), at, dim),
            st.tuples(st.just("cumsum"), at, dim),
            st.tuples(
                st.just("index"), at, st.lists(st.just(0), min_size=1, max_size=3)
            ),
            st.tuples(st.just("assign"), at, other),
        ]
    if rank == 4:
        choices.append(st.tuples(st.just("channels_last"), at))
    return st.one_of(choices)


def _reshapes(x: torch.Tensor) -> List[Tuple[int, ...]]:
    found: List[Tuple[int, ...]] = [(-1,)] if x.numel() else [tuple(x.shape)]
    if x.dim() >= 2 and x.numel():
        found.append((-1, *x.shape[2:]) if x.dim() > 2 else (x.shape[1], -1))
        found.append((*x.shape[:-1], x.shape[-1], 1))
    if x.numel() and x.numel() % 2 == 0:
        found.append((2, -1))
    return found


def _expansions(x: torch.Tensor) -> List[Tuple[int, ...]]:
    wider = tuple(3 if size == 1 else size for size in x.shape)
    return [wider, (2, *wider), (2, *x.shape)]
