# Copyright (c) Meta Platforms, Inc. and affiliates.
# All rights reserved.
#
# This source code is licensed under the BSD-style license found in the
# LICENSE file in the root directory of this source tree.

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).parent

# The repository root is the package ``executorch``, of which the installed executorch
# owns the rest; only these two packages are added to it.
NEW = {
    "executorch.exir.synthesized_constants": "exir/synthesized_constants",
    "executorch.torch_patches": "torch_patches",
}


def packages() -> "list[str]":
    return [
        name
        for package, path in NEW.items()
        for name in (package, *(f"{package}.{sub}" for sub in find_packages(path)))
    ]


setup(
    name="executorch-synthesized-constants",
    version="0.1.0",
    description="Synthesized constants for torch.export and ExecuTorch",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="BSD-3-Clause",
    python_requires=">=3.10",
    packages=packages(),
    package_dir=NEW,
    install_requires=[
        "torch>=2.13,<2.15",
        "executorch>=1.4,<1.6",
        "networkx",
        "tabulate",
        "wrapt",
    ],
    extras_require={
        "test": [
            "coverage>=7",
            "expecttest",
            "hypothesis",
            "onnx",
            "onnxscript",
            "packaging",
            "pytest>=9",
            "pytest-reportlog",
            "pytest-timeout",
            "pytest-xdist",
            "pyyaml",
            "setuptools>=70.1",  # builds a wheel without the package "wheel"
            "transformers>=5,<6",
        ],
        "demo": ["transformers>=5,<6"],
        "versions": ["nox"],
        "lint": [
            "black==24.4.2",
            "flake8==6.1.0",
            "flake8-breakpoint==1.1.0",
            "flake8-bugbear==24.4.26",
            "flake8-comprehensions==3.14.0",
            "flake8-pyi==23.5.0",
            "mccabe==0.7.0",
            "mypy==1.14.1",
            "pycodestyle==2.11.1",
            "torchfix==0.6.0",
            "ufmt==2.8.0",
            "usort==1.0.8.post1",
        ],
    },
    entry_points={
        "torch.backends": [
            "synthesized_constants = executorch.torch_patches.activation:register",
        ],
    },
)
