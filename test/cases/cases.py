# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

# flake8: noqa
# mypy: ignore-errors
"""Real-world situations around tensors that a graph makes from compile-time values only.

Every module below is self-written; the `ref` names the public report whose *situation* it
re-creates (nothing is copied from there).  CASES: name -> (factory, ref, note).
A factory returns a Spec.  run.py lowers and runs one.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Spec:
    # method name -> (module, example args, dynamic_shapes or None)
    methods: Dict[str, Tuple[nn.Module, tuple, Any]]
    # method name -> further argument tuples to run after the example args (same loaded program)
    more: Dict[str, List[tuple]] = field(default_factory=dict)
    strict: bool = False
    stateful: bool = (
        False  # module keeps buffers; compare call by call against a deepcopy
    )
    joint: bool = False  # _export_forward_backward before lowering
    quant: bool = False  # PT2E static quant with XNNPACKQuantizer
    roundtrip: bool = False  # torch.export.save/load before lowering
    etrecord: bool = False  # generate_etrecord=True and save it
    edge_cfg: Dict[str, Any] = field(default_factory=dict)
    et_cfg: Optional[Callable[[], Any]] = None
    ptd: bool = False  # external constants: load .ptd data next to the .pte
    channels_last_in: bool = False
    atol: float = 1e-4
    nondeterministic: bool = False  # values are not comparable (rng / uninitialised)
    interleave: bool = False  # run methods alternately (multi method)
    reuse_out: bool = False  # mutate returned output in place, then run again


CASES: Dict[str, Tuple[Callable[[], Spec], str, str]] = {}


def case(name: str, ref: str, note: str):
    def deco(fn):
        CASES[name] = (fn, ref, note)
        return fn

    return deco


def one(m: nn.Module, *args, dyn=None, **kw) -> Spec:
    return Spec(methods={"forward": (m.eval(), tuple(args), dyn)}, **kw)


torch.manual_seed(0)


@case(
    "mask_triu",
    "lucidrains/x-transformers#161",
    "causal mask full(-inf).triu(1); runtime without a triu kernel",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(16, 16)
            self.k = nn.Linear(16, 16)

        def forward(self, x):
            n = x.shape[1]
            s = self.q(x) @ self.k(x).transpose(1, 2) / 4.0
            s = s + torch.full((n, n), float("-inf")).triu(diagonal=1)
            return s.softmax(-1) @ x

    return one(M(), torch.randn(1, 32, 16))


@case(
    "mask_arange_le",
    "pytorch/TensorRT#4452",
    "causal + sliding-window mask from arange comparisons, bool mask into SDPA",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(32, 96)

        def forward(self, x):
            b, n, _ = x.shape
            q, k, v = self.qkv(x).view(b, n, 3, 2, 16).permute(2, 0, 3, 1, 4)
            i = torch.arange(n)
            keep = (i[None, :] <= i[:, None]) & (i[:, None] - i[None, :] < 8)
            o = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[None, None])
            return o.transpose(1, 2).reshape(b, n, 32)

    return one(M(), torch.randn(1, 24, 32))


@case(
    "rope_in_forward",
    "pytorch/executorch#3278",
    "rotary cos/sin tables computed in forward from arange/outer/cos/sin",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(32, 32, bias=False)

        def forward(self, x):
            b, n, d = x.shape
            inv = 1.0 / (10000.0 ** (torch.arange(0, d, 2, dtype=torch.float32) / d))
            ang = torch.outer(torch.arange(n, dtype=torch.float32), inv)
            emb = torch.cat((ang, ang), -1)
            cos, sin = emb.cos(), emb.sin()
            q = self.q(x)
            h1, h2 = q.chunk(2, -1)
            return q * cos + torch.cat((-h2, h1), -1) * sin

    return one(M(), torch.randn(1, 64, 32))


@case(
    "t5_rel_bias",
    "pytorch/executorch#12234",
    "T5 relative-position buckets (arange, abs, log, where, min) feeding an embedding; QNN port moved them to buffers by hand",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.Embedding(32, 4)

        def forward(self, scores):
            n = scores.shape[-1]
            rel = torch.arange(n)[None, :] - torch.arange(n)[:, None]
            side = (rel > 0).long() * 16
            a = rel.abs()
            big = (
                8 + (torch.log(a.float().clamp(min=1) / 8) / math.log(16.0) * 8).long()
            )
            big = torch.min(big, torch.full_like(big, 15))
            bucket = side + torch.where(a < 8, a, big)
            return scores + self.bias(bucket).permute(2, 0, 1).unsqueeze(0)

    return one(M(), torch.randn(1, 4, 20, 20))


@case(
    "swin_shift_mask",
    "huggingface/transformers#41992",
    "Swin shifted-window mask built by slice assignment into zeros, partition, masked_fill",
)
def _():
    class M(nn.Module):
        def forward(self, attn):
            H = W = 8
            ws, sh = 4, 2
            img = torch.zeros(1, H, W, 1)
            cnt = 0
            for hs in (slice(0, -ws), slice(-ws, -sh), slice(-sh, None)):
                for w_ in (slice(0, -ws), slice(-ws, -sh), slice(-sh, None)):
                    img[:, hs, w_, :] = cnt
                    cnt += 1
            w = img.view(1, H // ws, ws, W // ws, ws, 1).permute(0, 1, 3, 2, 4, 5)
            w = w.reshape(-1, ws * ws)
            m = w[:, None] - w[:, :, None]
            m = m.masked_fill(m != 0, -100.0).masked_fill(m == 0, 0.0)
            return (attn + m[:, None]).softmax(-1)

    return one(M(), torch.randn(4, 2, 16, 16))


@case(
    "detr_sine_pos",
    "roboflow/rf-detr#1142",
    "DETR sine position embedding: zeros bool mask, cumsum, arange dim_t, sin/cos stack",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Conv2d(3, 16, 1)

        def forward(self, x):
            b, _, h, w = x.shape
            keep = ~torch.zeros(b, h, w, dtype=torch.bool)
            y = keep.cumsum(1, dtype=torch.float32)
            xx = keep.cumsum(2, dtype=torch.float32)
            y = y / (y[:, -1:, :] + 1e-6) * 2 * math.pi
            xx = xx / (xx[:, :, -1:] + 1e-6) * 2 * math.pi
            t = torch.arange(8, dtype=torch.float32)
            t = 10000 ** (2 * torch.div(t, 2, rounding_mode="floor") / 8)
            px, py = xx[..., None] / t, y[..., None] / t
            px = torch.stack((px[..., 0::2].sin(), px[..., 1::2].cos()), 4).flatten(3)
            py = torch.stack((py[..., 0::2].sin(), py[..., 1::2].cos()), 4).flatten(3)
            pos = torch.cat((py, px), 3).permute(0, 3, 1, 2)
            return self.proj(x) + pos

    return one(M(), torch.randn(1, 3, 12, 10))


@case(
    "yolo_anchors",
    "pytorch/executorch#12237",
    "YOLO head: arange+0.5, meshgrid, stack, full stride tensor, dist2bbox",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c1, self.c2 = nn.Conv2d(8, 6, 1), nn.Conv2d(8, 6, 1)

        def forward(self, p3, p4):
            outs, anchors, strides = [], [], []
            for f, c, s in ((p3, self.c1, 8), (p4, self.c2, 16)):
                o = c(f)
                _, _, h, w = o.shape
                sx = torch.arange(w, dtype=o.dtype) + 0.5
                sy = torch.arange(h, dtype=o.dtype) + 0.5
                gy, gx = torch.meshgrid(sy, sx, indexing="ij")
                anchors.append(torch.stack((gx, gy), -1).view(-1, 2))
                strides.append(torch.full((h * w, 1), float(s)))
                outs.append(o.view(1, 6, -1))
            a = torch.cat(anchors).t().unsqueeze(0)
            st = torch.cat(strides).t()
            z = torch.cat(outs, 2)
            lt, rb, cls = z[:, :2], z[:, 2:4], z[:, 4:]
            box = torch.cat(((a - lt + a + rb) / 2, rb + lt), 1) * st
            return torch.cat((box, cls.sigmoid()), 1)

    return one(M(), torch.randn(1, 8, 20, 20), torch.randn(1, 8, 10, 10))


@case(
    "upsample_nearest_frac",
    "pytorch/executorch#21585",
    "nearest upsample with non-integer scale: arange/mul/to index maths",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(4, 4, 3, padding=1)

        def forward(self, x):
            return self.c(F.interpolate(x, size=(13, 17), mode="nearest"))

    return one(M(), torch.randn(1, 4, 8, 8))


@case(
    "upsample_bicubic",
    "pytorch/executorch#7402",
    "bicubic upsample decomposes to arange/floor/clamp/index chains (ViT pos-embed resize on activations)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(3, 4, 1)

        def forward(self, x):
            return F.interpolate(
                self.c(x), size=(12, 12), mode="bicubic", align_corners=False
            )

    return one(M(), torch.randn(1, 3, 7, 7))


@case(
    "affine_grid",
    "pytorch/executorch#12270",
    "eye/linspace made in forward (CRNN/STN): theta = eye, affine_grid, grid maths",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(8, 8)

        def forward(self, x):
            e = torch.eye(8)
            pos = torch.linspace(-1, 1, 8)
            th = torch.eye(2, 3).unsqueeze(0)
            grid = F.affine_grid(th, [1, 1, 4, 4], align_corners=False)
            return self.lin(x) @ (e + pos) + grid.sum()

    return one(M(), torch.randn(2, 8))


@case(
    "one_hot_vq",
    "pytorch/executorch#12565",
    "zeros + scatter_/index_put_ (one-hot codebook), zeros overwritten by data-dependent index",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.book = nn.Parameter(torch.randn(16, 8))

        def forward(self, idx, v):
            oh = torch.zeros(idx.shape[0], 16).scatter_(1, idx[:, None], 1.0)
            buf = torch.zeros(16, 8)
            buf[idx] = v
            return oh @ self.book, buf

    s = one(M(), torch.tensor([1, 3, 5]), torch.randn(3, 8))
    s.more = {"forward": [(torch.tensor([0, 2, 15]), torch.randn(3, 8))]}
    return s


@case(
    "scalar_tensor_add", "pytorch/executorch#3827", "scalar_tensor(2.0) stays as an op"
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return x + torch.scalar_tensor(2.0)

    return one(M(), torch.randn(3))


@case(
    "ones_as_weight",
    "pytorch/executorch#3491",
    "torch.ones / full used as linear and conv weight: XNNPACK needs static weights",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            k = torch.ones(4, 1, 3, 3) / 9.0
            x = F.conv2d(x, k, torch.zeros(4), padding=1, groups=4)
            w = torch.full((5, 4 * 6 * 6), 0.01)
            return F.linear(x.flatten(1), w, torch.arange(5, dtype=torch.float32))

    return one(M(), torch.randn(1, 4, 6, 6))


@case(
    "lstm_zero_state",
    "pytorch/pytorch#123089",
    "nn.LSTM default hx/cx = zeros made in forward",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.LSTM(6, 5, batch_first=True)
            self.o = nn.Linear(5, 2)

        def forward(self, x):
            y, _ = self.r(x)
            return self.o(y[:, -1])

    return one(M(), torch.randn(1, 4, 6))


@case(
    "gru_quant",
    "pytorch/executorch#10104",
    "PT2E static quantisation of GRU with implicit zeros hidden state (reported failure; workaround: pass hx)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.r = nn.GRU(6, 5, batch_first=True)

        def forward(self, x):
            return self.r(x)[0]

    return one(M(), torch.randn(1, 3, 6), quant=True, atol=0.15)


@case(
    "quant_neginf_mask",
    "pytorch/executorch#8736",
    "-inf mask added to scores in a quantised graph (observer ranges, NaN)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(8, 8)

        def forward(self, x):
            n = x.shape[1]
            q = self.q(x)
            m = torch.full((n, n), float("-inf")).triu(1)
            return (q @ x.transpose(1, 2) + m).softmax(-1)

    return one(M(), torch.randn(1, 6, 8), quant=True, atol=0.15)


@case(
    "shared_const_two_parts",
    "pytorch/executorch#2570",
    "one constant used by two delegates split by an unsupported op",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            c = torch.linspace(0, 1, 256).view(16, 16)
            a = (x + c) * 2
            a = torch.erf(a).flip(0)  # stays on CPU
            return (a + c) * c

    return one(M(), torch.randn(16, 16))


@case(
    "shared_synth_list_arg",
    "pytorch/executorch#22798",
    "same, but the shared tensor is made by full().cos() in the graph (bug becomes reachable once it is lifted)",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            k = torch.full((1, 4), 0.3).cos()
            a = torch.cat((x, k), 0) * 2.0
            a = torch.erf(a).flip(0)
            return torch.cat((a, k), 0) * 3.0

    return one(M(), torch.randn(2, 4))


@case(
    "const_only_output",
    "pytorch/executorch#2039",
    "delegate would return a constant: outputs depend on no user input at all",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            pos = torch.arange(6, dtype=torch.float32).sin() * 2
            return x + 1, pos

    return one(M(), torch.randn(6), reuse_out=True)


@case(
    "no_user_input",
    "pytorch/executorch#22309",
    "program without any user input: everything is compile-time",
)
def _():
    class M(nn.Module):
        def forward(self):
            return torch.arange(4).float().cos() + torch.full((4,), 2.0)

    return one(M())


@case(
    "unused_input_only_shape",
    "pytorch/pytorch#131594",
    "user input used only for its (static) shape: becomes unused after lifting",
)
def _():
    class M(nn.Module):
        def forward(self, x, y):
            return torch.ones_like(x).cumsum(0) + y

    return one(M(), torch.randn(4, 3), torch.randn(4, 3))


@case(
    "name_clash_lifted",
    "pytorch/pytorch#151123",
    "user tensor attribute already called lifted_tensor_0 next to export's own lifted_tensor_0",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.lifted_tensor_0 = torch.tensor([1.0, 2.0, 3.0, 4.0])

        def forward(self, x):
            idx = torch.tensor([3, 1, 0, 2])
            w = torch.full((4,), 0.5).exp()
            return x.index_select(1, idx) + w * self.lifted_tensor_0

    return one(M(), torch.randn(2, 4))


@case(
    "name_clash_tensor_constant",
    "pytorch/pytorch#151123",
    "user attribute called _tensor_constant0, another constant of a different dtype from torch.tensor",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self._tensor_constant0 = torch.tensor([2.5])

        def forward(self, x):
            idx = torch.tensor([3, 1, 0, 2])
            return (
                x.index_select(1, idx) * self._tensor_constant0
                + torch.full((4,), 0.5).exp()
            )

    return one(M(), torch.randn(2, 4))


@case(
    "module_call_sig_consts",
    "pytorch/pytorch#181179",
    "decompositions add constants; module call graph kept; nested modules that each make constants",
)
def _():
    class Blk(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return (
                self.l(x)
                + torch.full((4,), float(self.k)).sqrt()
                + torch.tensor([self.k])
            )

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.ModuleList([Blk(1), Blk(4), Blk(9)])

        def forward(self, x):
            for b in self.b:
                x = b(x)
            return x

    return one(M(), torch.randn(1, 4), roundtrip=True)


@case(
    "cond_branch_tensor",
    "pytorch/pytorch#180354",
    "torch.tensor(...) created inside cond branches",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            def t(x):
                return x + torch.tensor(2.0)

            def f(x):
                return x - torch.tensor([1.0])

            return torch.cond(x.sum() > 0, t, f, (x,))

    s = one(M(), torch.ones(4))
    s.more = {"forward": [(-torch.ones(4),)]}
    return s


@case(
    "cond_branch_full",
    "pytorch/executorch#17369",
    "creation ops (full/arange/triu) inside cond branches, plus one shared from outside",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            out = torch.linspace(0, 1, 4)

            def t(x, o):
                return x + torch.full((4,), 2.0) * o

            def f(x, o):
                return x * torch.arange(4).float().exp() - o

            return torch.cond(x.sum() > 0, t, f, (x, out))

    s = one(M(), torch.ones(4))
    s.more = {"forward": [(-torch.ones(4),), (torch.ones(4),)]}
    return s


@case(
    "cond_const_pred",
    "pytorch/pytorch#128709",
    "cond whose predicate is itself made from constants only",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            p = torch.ones(3).sum() > 2
            return torch.cond(p, lambda x: x + 1, lambda x: x - 1, (x,))

    return one(M(), torch.randn(3))


@case(
    "cond_nested_outputs",
    "pytorch/executorch#21490",
    "consecutive/nested conds, one branch returns a constant: arena aliasing",
)
def _():
    class M(nn.Module):
        def forward(self, v):
            p = v.sum() >= 0
            nan = torch.full((2,), 7.0)
            r1 = torch.cond(p, lambda v, n: v.clone(), lambda v, n: n.clone(), (v, nan))
            r2 = torch.cond(
                p,
                lambda r, n: torch.cond(
                    r.max() > 1, lambda r, n: r * 2, lambda r, n: n + 0.5, (r, n)
                ),
                lambda r, n: r - n,
                (r1, nan),
            )
            return r1, r2

    s = one(M(), torch.tensor([2.0, 3.0]))
    s.more = {"forward": [(torch.tensor([-2.0, -3.0]),), (torch.tensor([0.1, 0.2]),)]}
    return s


@case(
    "scan_zero_carry",
    "pytorch/executorch#8769",
    "scan whose initial carry is zeros (and inputs come from arange)",
)
def _():
    from torch._higher_order_ops.scan import scan

    class M(nn.Module):
        def forward(self, xs):
            def step(c, x):
                n = c * 0.5 + x + torch.full((3,), 0.25).cos()
                return n, n * 2

            c, ys = scan(step, torch.zeros(3), xs)
            return c, ys

    s = one(M(), torch.randn(5, 3))
    s.more = {"forward": [(torch.randn(5, 3),)]}
    return s


@case(
    "while_loop_const",
    "pytorch/executorch#8769",
    "while_loop with constant init (stock: emitter has no while_loop)",
)
def _():
    from torch._higher_order_ops.while_loop import while_loop

    class M(nn.Module):
        def forward(self, x):
            def c(i, y):
                return i < 3

            def b(i, y):
                return i + 1, y * 2 + torch.ones(3)

            return while_loop(c, b, (torch.zeros((), dtype=torch.long), x))[1]

    return one(M(), torch.randn(3))


@case(
    "zeros_scatter_rows",
    "pytorch/TensorRT#1453",
    "out = zeros; out[:, idx] = h[:, idx]: creator mutated in place; must stay fresh on each run",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(6, 4)

        def forward(self, idx, e):
            h = F.relu(self.l(e))
            out = torch.zeros(1, 8, 4)
            out[:, idx] = h[:, idx]
            return out

    s = one(M(), torch.tensor([0, 3]), torch.randn(1, 8, 6))
    s.more = {"forward": [(torch.tensor([5, 6]), torch.randn(1, 8, 6))]}
    return s


@case(
    "inplace_chain_on_creator",
    "pytorch/pytorch#197096",
    "creator mutated in place by add_/mul_/clamp_ with constants only, and a view of it",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            t = torch.arange(6, dtype=torch.float32)
            t.add_(1).mul_(0.5)
            v = t.view(2, 3)
            v[0].fill_(9.0)
            t[5:] = -1
            return x + v, t.clone()

    return one(M(), torch.randn(2, 3), reuse_out=True)


@case(
    "mutated_captured_const",
    "pytorch/pytorch#197096",
    "plain tensor attribute (not a buffer) used as running stats and mutated: lifted constant mutated",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.rm, self.rv = torch.zeros(3), torch.ones(3)

        def forward(self, x):
            return F.batch_norm(x, self.rm, self.rv, training=True)

    return one(M(), torch.randn(4, 3))


@case(
    "buffer_init_ones",
    "pytorch/executorch#11309",
    "mutable buffer whose initial state is ones/arange: initial value must survive; and a constant full copied into it",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("k", torch.ones(1, 6, 2))

        def forward(self, pos, val):
            self.k.index_copy_(1, pos, val + torch.full((1, 1, 2), 0.5).exp())
            return self.k + 0

    s = one(M(), torch.tensor([2]), torch.randn(1, 1, 2), stateful=True)
    s.more = {"forward": [(torch.tensor([4]), torch.randn(1, 1, 2))]}
    return s


@case(
    "buffer_reset_from_const",
    "pytorch/executorch#7779",
    "mutable buffer overwritten by a constant (reset to zeros) then read: const prop must not freeze it",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3))

        def forward(self, x):
            y = self.n * 2 + x
            self.n.add_(torch.ones(3))
            return y

    s = one(M(), torch.randn(3), stateful=True)
    s.more = {"forward": [(torch.zeros(3),), (torch.zeros(3),)]}
    return s


@case(
    "buffer_assigned_const",
    "pytorch/executorch#7779",
    "buffer mutation whose new value is a pure constant (copy_ from arange): output spec BUFFER_MUTATION is a constant",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("b", torch.zeros(4))

        def forward(self, x):
            y = x + self.b
            self.b.copy_(torch.arange(4).float())
            return y

    s = one(M(), torch.zeros(4), stateful=True)
    s.more = {"forward": [(torch.zeros(4),), (torch.zeros(4),)]}
    return s


@case(
    "empty_scratch",
    "pytorch/executorch#21897",
    "torch.empty workspace fully overwritten later: must never be frozen as data",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            ws = torch.empty(4, 4)
            ws.copy_(x)
            n = torch.empty(4, 4).zero_()
            return ws * 2 + n

    return one(M(), torch.randn(4, 4))


@case(
    "rng_not_const",
    "pytorch/executorch#4462",
    "rand/randn/dropout-like noise without tensor inputs must stay a runtime op",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return x * 0 + torch.rand(4) + torch.zeros(4)

    s = one(M(), torch.randn(4), nondeterministic=True)
    s.more = {"forward": [(torch.randn(4),)]}
    return s


@case(
    "cl_depthwise_const",
    "pytorch/executorch#22520",
    "channels_last depthwise: synthesized (8,1,3,3) weight and (1,1,h,w) constant, size-1 dims make the dim order ambiguous",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            k = torch.full((8, 1, 3, 3), 1 / 9.0).to(memory_format=torch.channels_last)
            bias = (
                torch.linspace(0, 1, 36)
                .view(1, 1, 6, 6)
                .to(memory_format=torch.channels_last)
            )
            return F.conv2d(x, k, padding=1, groups=8) + bias

    return one(M(), torch.randn(1, 8, 6, 6).to(memory_format=torch.channels_last))


@case(
    "noncontig_const",
    "google-ai-edge/litert-torch#1238",
    "constants that are transposed / expanded / strided views: value must not be baked in storage order",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("w", torch.randn(4, 6).t())
            self.plain = torch.randn(5, 6)[::2].t()  # non contiguous plain attribute

        def forward(self, x):
            a = torch.arange(24.0).view(4, 6).t()
            e = torch.linspace(0, 1, 4).expand(6, 4)
            return x * self.w + a - e, self.plain * 1, a

    return one(M(), torch.randn(6, 4), reuse_out=True)


@case(
    "dtype_zoo",
    "pytorch/executorch#13581",
    "creators in many dtypes: int8 arange, bool full, f64 linspace, f16/bf16 eye, uint8, int32, 0-size, scalar bool end",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            a = torch.arange(-3, 3, dtype=torch.int8)
            b = torch.full((6,), True)
            c = torch.linspace(0, 1, 6, dtype=torch.float64)
            d = torch.eye(6, dtype=torch.float16).sum(0)
            e = torch.ones(6, dtype=torch.bfloat16)
            f = torch.arange(6, dtype=torch.int32)
            g = torch.zeros(0, 6)
            u = torch.full((6,), 200, dtype=torch.uint8)
            y = (
                x
                + a.float()
                + b.float()
                + c.float()
                + d.float()
                + e.float()
                + f.float()
                + u.float()
            )
            return torch.cat((g, y[None]), 0)

    return one(M(), torch.randn(6))


@case(
    "longtensor_ctor",
    "pytorch/pytorch#134180",
    "legacy torch.LongTensor([..])/torch.Tensor ctor in forward gives a FakeTensor constant",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return x.index_select(0, torch.LongTensor([2, 0])) + torch.Tensor([1.0])

    return one(M(), torch.randn(3))


@case(
    "autocast_disabled_rope",
    "pytorch/executorch#3278",
    "HF rotary module: autocast(enabled=False) region + float() round trips, bf16 result",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(
                "inv",
                1.0 / (10000 ** (torch.arange(0, 8, 2).float() / 8)),
                persistent=False,
            )

        @torch.no_grad()
        def table(self, pos, dt):
            with torch.autocast("cpu", enabled=False):
                f = (
                    self.inv[None, :, None].float().expand(1, -1, 1)
                    @ pos[:, None, :].float()
                ).transpose(1, 2)
                e = torch.cat((f, f), -1)
                return e.cos().to(dt), e.sin().to(dt)

        def forward(self, x):
            pos = torch.arange(x.shape[1]).unsqueeze(0)
            c, s = self.table(pos, torch.bfloat16)
            return x * c.float() + x.flip(-1) * s.float()

    return one(M(), torch.randn(1, 6, 8), atol=2e-2)


@case(
    "dyn_arange_mask",
    "pytorch/executorch#7717",
    "arange(seq)/full((s,s)) with dynamic seq: not liftable; static head-dim table beside it is",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.q = nn.Linear(8, 8)

        def forward(self, x):
            n = x.shape[1]
            i = torch.arange(n)
            m = torch.zeros(n, n).masked_fill(i[None] > i[:, None], float("-inf"))
            inv = 1.0 / (100.0 ** (torch.arange(8, dtype=torch.float32) / 8))
            pe = torch.outer(i.float(), inv).sin()
            s = self.q(x + pe) @ x.transpose(1, 2) + m
            return s.softmax(-1) @ x

    d = torch.export.Dim("s", min=2, max=32)
    s = one(M(), torch.randn(1, 8, 8), dyn=({1: d},))
    s.more = {"forward": [(torch.randn(1, 5, 8),), (torch.randn(1, 32, 8),)]}
    return s


@case(
    "dyn_canvas",
    "pytorch/pytorch#150851",
    "zeros of a dynamic extent with slice assignment from two inputs",
)
def _():
    class M(nn.Module):
        def forward(self, x, y):
            n = x.shape[0] + y.shape[0]
            z = torch.zeros(n, 3)
            z[: x.shape[0]] = x
            z[x.shape[0] :] += y + torch.linspace(0, 1, 3)
            return z

    a, b = torch.export.Dim("a", min=2, max=8), torch.export.Dim("bb", min=2, max=8)
    s = one(M(), torch.randn(3, 3), torch.randn(4, 3), dyn=({0: a}, {0: b}))
    s.more = {"forward": [(torch.randn(6, 3), torch.randn(2, 3))]}
    return s


@case(
    "joint_sigmoid_sum",
    "pytorch/executorch#15505",
    "the issue's situation: joint graph of sigmoid().sum(): full_like/expand of ones (small shape)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(4, 8))

        def forward(self, x):
            return torch.sigmoid(x * self.w).sum()

    return one(M(), torch.randn(4, 8), joint=True)


@case(
    "joint_mlp_ce_mask",
    "pytorch/executorch#5450",
    "joint graph with cross entropy + causal mask + relu backward (threshold, zeros, scalar_tensor, eq)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x, y):
            h = F.relu(self.a(x)) * torch.linspace(0.5, 1.5, 8)
            return F.cross_entropy(self.b(h), y)

    return one(M(), torch.randn(4, 6), torch.tensor([0, 1, 2, 1]), joint=True)


@case(
    "multimethod_names",
    "pytorch/executorch#21706",
    "prefill/decode each make own tables of other shapes under the same automatic names",
)
def _():
    class P(nn.Module):
        def __init__(self, n, w):
            super().__init__()
            self.n = n
            self.w = w

        def forward(self, x):
            t = torch.arange(self.n).float().unsqueeze(1) * torch.linspace(0.1, 1, 4)
            return self.w(x + t.sin()) * torch.tensor([float(self.n)])

    lin = nn.Linear(4, 4)
    return Spec(
        methods={
            "prefill": (P(8, lin).eval(), (torch.randn(8, 4),), None),
            "decode": (P(1, lin).eval(), (torch.randn(1, 4),), None),
        },
        more={"prefill": [(torch.randn(8, 4),)], "decode": [(torch.randn(1, 4),)]},
        interleave=True,
    )


@case(
    "ptd_lifted_stay",
    "pytorch/executorch#8809",
    "external_constants with lifted constants: code-like constants should stay in the .pte; equal data under two names",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)
            self.register_buffer("a", torch.full((4,), 2.0))
            self.register_buffer("b", torch.full((4,), 2.0))

        def forward(self, x):
            t = torch.tensor([1.0, 2.0, 3.0, 4.0])
            return (
                torch.erf(self.l(x) * t + self.a) * self.b
                + torch.full((4,), 2.0).sqrt()
            )

    s = one(M(), torch.randn(1, 4))
    from executorch.exir import ExecutorchBackendConfig

    s.et_cfg = lambda: ExecutorchBackendConfig(external_constants=True)
    s.ptd = True
    return s


@case(
    "etrecord_consts",
    "pytorch/executorch#18422",
    "generate_etrecord with scalar + synthesized constants (get_attr left in the graph)",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x):
            return self.l(x) * 0.5 + torch.arange(4).float() + torch.tensor([1.0])

    return one(M(), torch.randn(1, 4), etrecord=True)


@case(
    "save_load_then_lower",
    "pytorch/executorch#5265",
    "torch.export.save/load before lowering, with constants, noncontig and bf16 ones",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = nn.Conv2d(2, 4, 3, padding=1)
            self.t = torch.arange(12.0).view(3, 4).t()

        def forward(self, x):
            m = torch.full((4, 3), 2.0, dtype=torch.bfloat16).float().log()
            return self.c(x)[..., :3] + self.t + m + torch.tensor([1, 2, 3])

    return one(M(), torch.randn(1, 2, 4, 4), roundtrip=True)


@case(
    "huge_expand",
    "pytorch/pytorch#75597",
    "ones_like/expand of a large static shape: lifting costs 4 MB in the file for one scalar's worth of information",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return (
                x
                + torch.ones_like(x) * 2
                + torch.full((1, 1024), 3.0).expand(1024, 1024)
            )

    return one(M(), torch.randn(1024, 1024))


@case(
    "anomaly_prior",
    "pytorch/executorch#8631",
    "Anomaly-Transformer: distance matrix |i-j| plain tensor, exp prior from learned sigma",
)
def _():
    class M(nn.Module):
        def __init__(self, n=16):
            super().__init__()
            i = torch.arange(n)
            self.dist = (
                i[None] - i[:, None]
            ).abs()  # int64 plain attribute, not a buffer
            self.s = nn.Linear(4, 1)

        def forward(self, x):
            n = x.shape[1]
            sig = torch.sigmoid(self.s(x) * 5) + 1e-5
            sig = torch.pow(3, sig) - 1
            prior = self.dist.unsqueeze(0).repeat(x.shape[0], 1, 1).to(x.dtype)
            return (
                1.0
                / (math.sqrt(2 * math.pi) * sig)
                * torch.exp(-(prior**2) / 2 / (sig**2))
            )

    return one(M(), torch.randn(1, 16, 4), atol=1e-2)


@case(
    "cls_token_full_cat",
    "pytorch/executorch#9711",
    "scalar_tensor/full/zeros in cat + where with scalar_tensor(-inf) + masked_fill with runtime mask",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(4, 4)

        def forward(self, x, keep):
            b = x.shape[0]
            x = torch.cat((torch.zeros(b, 1, 4), x, torch.full((b, 1, 4), 0.5)), 1)
            x = self.l(x)
            keep = torch.cat(
                (
                    torch.ones(b, 1, dtype=torch.bool),
                    keep,
                    torch.ones(b, 1, dtype=torch.bool),
                ),
                1,
            )
            return torch.where(
                keep[..., None], x, torch.scalar_tensor(float("-inf"))
            ).amax(1)

    return one(
        M(),
        torch.randn(2, 3, 4),
        torch.tensor([[True, False, True], [True, True, False]]),
    )


@case(
    "multimethod_ptd_same_shape",
    "pytorch/executorch#21959",
    "two methods, same automatic constant name, same shape, other data, external_constants=True: silent wrong numbers?",
)
def _():
    class P(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k

        def forward(self, x):
            return torch.erf(x + torch.arange(self.k, self.k + 4).float() * 0.1)

    from executorch.exir import ExecutorchBackendConfig

    return Spec(
        methods={
            "a": (P(0).eval(), (torch.randn(4),), None),
            "b": (P(7).eval(), (torch.randn(4),), None),
        },
        more={"a": [(torch.randn(4),)], "b": [(torch.randn(4),)]},
        interleave=True,
        ptd=True,
        et_cfg=lambda: ExecutorchBackendConfig(external_constants=True),
    )


@case(
    "preserve_ops_delegable_island",
    "pytorch/executorch#22078",
    "conv -> (constant-only interpolate weight map) -> mul: the constant island splits one delegate in several",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(
                4, 4, 3, padding=1
            )

        def forward(self, x):
            w = F.interpolate(
                torch.linspace(0, 1, 16).view(1, 1, 4, 4),
                size=(12, 12),
                mode="bilinear",
            )
            y = self.a(x) * w
            return self.b(y) * w.flip(-1)

    return one(M(), torch.randn(1, 3, 12, 12))


@case(
    "multimethod_ptd_attr",
    "pytorch/executorch#7192",
    "two methods from two modules whose plain tensor attribute / buffer has the same FQN but other data, external_constants=True (no folding at all)",
)
def _():
    class P(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.t = torch.arange(k, k + 4).float() * 0.1
            self.register_buffer("b", torch.full((4,), float(k)))

        def forward(self, x):
            return torch.erf(x + self.t) * torch.erf(self.b * 0.1)

    from executorch.exir import ExecutorchBackendConfig

    return Spec(
        methods={
            "a": (P(0).eval(), (torch.randn(4),), None),
            "b": (P(7).eval(), (torch.randn(4),), None),
        },
        more={"a": [(torch.randn(4),)], "b": [(torch.randn(4),)]},
        interleave=True,
        ptd=True,
        et_cfg=lambda: ExecutorchBackendConfig(external_constants=True),
    )


@case(
    "zero_size_const",
    "pytorch/executorch#22788",
    "zero-element constants: the only constant of the program is (1,0,4) (NULL data pointer / empty segment)",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            e = torch.arange(8.0).view(1, 2, 4)[:, 2:]
            return torch.cat((x, e, torch.zeros(1, 0, 4)), 1)

    return one(M(), torch.randn(1, 3, 4))


@case(
    "odd_dim_order_buffer",
    "pytorch/executorch#16507",
    "buffer = randn(20,20,4).permute(2,0,1).unsqueeze(0): strides (4,1,80,4), a dim order neither default nor channels_last",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer(
                "t", torch.randn(20, 20, 4).permute(2, 0, 1).unsqueeze(0)
            )

        def forward(self, x):
            return x + self.t

    return one(M(), torch.randn(1, 4, 20, 20))


@case(
    "odd_dim_order_synth",
    "pytorch/executorch#16507",
    "same layout reached by permute/unsqueeze of a synthesized table (what folding in eager strides would produce)",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            t = (
                torch.linspace(-1, 1, 1600)
                .view(20, 20, 4)
                .permute(2, 0, 1)
                .unsqueeze(0)
            )
            return x + t

    return one(M(), torch.randn(1, 4, 20, 20))


@case(
    "cl_weight_creator",
    "pytorch/executorch#22520",
    "conv weight = creator.to(channels_last): XNNPACK takes the lone layout copy as a partition of its own",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            k = torch.full((8, 1, 3, 3), 1 / 9.0).to(memory_format=torch.channels_last)
            return F.conv2d(x, k, padding=1, groups=8)

    return one(M(), torch.randn(1, 8, 6, 6))


@case(
    "neg_zero",
    "pytorch/executorch#15139",
    "full(-0.0) beside full(0.0): sign of zero must survive lifting, hashing and deduplication",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return x / torch.full((4,), 0.0), x / torch.full((4,), -0.0)

    return one(M(), torch.rand(4) + 0.5)


@case(
    "quant_conv_const_weight",
    "pytorch/executorch#17478",
    "PT2E: depthwise conv whose weight is ones/9 made in forward",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            return F.conv2d(x, torch.ones(4, 1, 3, 3) / 9, padding=1, groups=4)

    return one(M(), torch.randn(1, 4, 8, 8), quant=True, atol=0.05)


@case(
    "dyn_new_full_static",
    "pytorch/pytorch#187907",
    "new_full/new_zeros/ones_like of a tensor with dynamic batch, but with static result shape: liftable although the creator has a runtime tensor argument",
)
def _():
    class M(nn.Module):
        def forward(self, x):
            a = x.new_full((4,), 2.0).sqrt()
            b = torch.ones_like(x[:1]).cumsum(1)
            c = torch.arange(x.shape[1], dtype=x.dtype)
            return x * a + b + c + x.new_zeros((x.shape[0], 1))

    d = torch.export.Dim("b", min=2, max=16)
    s = one(M(), torch.randn(3, 4), dyn=({0: d},))
    s.more = {"forward": [(torch.randn(9, 4),)]}
    return s


@case(
    "buffer_init_pass",
    "pytorch/executorch#21490",
    "initialised mutable buffer through InitializedMutableBufferPass while the init value is built from creators in __init__; constants added beside it",
)
def _():
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.init_mutable_pass import InitializedMutableBufferPass

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("st", torch.arange(4).float())

        def forward(self, x):
            y = self.st + x + torch.full((4,), 0.25).sqrt()
            self.st.add_(torch.ones(4).cumsum(0))
            return y

    s = one(
        M(),
        torch.zeros(4),
        stateful=True,
        et_cfg=lambda: ExecutorchBackendConfig(
            passes=[InitializedMutableBufferPass(["st"])]
        ),
    )
    s.more = {"forward": [(torch.zeros(4),), (torch.ones(4),)]}
    return s


@case(
    "wide_shared_mask_layers",
    "huggingface/transformers#47243",
    "one mask shared by 6 attention layers + one rebuilt per layer: how often is it stored / rebuilt",
)
def _():
    class L(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)

        def forward(self, x, m):
            n = x.shape[1]
            own = torch.ones(n, n, dtype=torch.bool).tril().logical_not()
            s = (self.q(x) @ self.k(x).transpose(1, 2) + m).masked_fill(own, -1e4)
            return x + s.softmax(-1) @ x

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.ls = nn.ModuleList([L() for _ in range(6)])

        def forward(self, x):
            n = x.shape[1]
            m = torch.full((n, n), -1e4).triu(1)
            for l in self.ls:
                x = l(x, m)
            return x

    return one(M(), torch.randn(1, 16, 16))


@case(
    "shared_buffer_two_parts",
    "pytorch/executorch#2570",
    "buffer used by two delegates and by a CPU op",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.linspace(0, 1, 256).view(16, 16))

        def forward(self, x):
            a = torch.erf((x + self.c) * 2).flip(0)
            return (a + self.c) * self.c + torch.erf(self.c)

    return one(M(), torch.randn(16, 16))


@case(
    "shared_attr_cpu_and_delegate",
    "pytorch/executorch#2570",
    "plain tensor attribute used by one delegate and by a CPU op",
)
def _():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.c = torch.linspace(0, 1, 256).view(16, 16)

        def forward(self, x):
            return (x + self.c) * 2, torch.erf(self.c)

    return one(M(), torch.randn(16, 16))
