"""The Python packages without ROS: `pip install .` for library use.

With ROS 2, colcon takes package.xml instead.
"""

import runpy
from pathlib import Path

from setuptools import find_packages, setup

PACKAGES = runpy.run_path("haptic_sim/installed.py")["PACKAGE_NAMES"]


def shared(folder):
    """What is installed in share/haptics, in the folders it has here."""
    folders = [Path(folder), *(path for path in Path(folder).rglob("*") if path.is_dir())]
    return [
        (f"share/haptics/{path}", [str(file) for file in sorted(path.iterdir()) if file.is_file()])
        for path in folders
        if path.is_dir() and "__pycache__" not in path.parts
    ]


setup(
    name="haptics",
    description="Haptic rendering of rigid bodies and linkages, and a bench for experiments on it",
    long_description=Path("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    author="The haptics developers",
    author_email="maintainers@haptics.example",
    python_requires=">=3.10,<3.13",
    packages=find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
    package_data={
        name: ["**/*.css", "**/*.csv", "**/*.html", "**/*.js", "**/*.pyi", "**/*.yaml", "py.typed"] for name in PACKAGES
    },
    data_files=[*shared("config"), *shared("msg"), *shared("examples/own_parts")],
    install_requires=[
        "coal>=3.0",
        "llvmlite>=0.43",
        "numba>=0.60,<0.69",
        "numpy>=1.26",
        "pin>=3.4,<5",
        "pydantic>=2.6",
        "pyyaml>=6.0",
        "scipy>=1.11",
        "transforms3d>=0.4.1",
    ],
    extras_require={
        "bags": [  # trials: to run, record, replay and report them
            "matplotlib>=3.8",
            "mcap>=1.5",
            "rosbags>=0.10",
            "setproctitle>=1.3",
            "tqdm>=4.60",
            "zstandard>=0.21",
        ],
        "dask": ["distributed>=2024.8"],
        "formulas": ["sympy>=1.12"],  # constraints that formulas give
        "haply": ["websockets>=13,<17"],  # the driver of the Inverse3
        "lsl": ["pylsl>=1.16"],  # events of studies for the lab streaming layer
        "meshes": ["coacd>=1.0.5", "libigl>=2.5", "pycollada>=0.8", "trimesh>=4.0"],  # shapes that are meshes
        "mujoco": ["mujoco>=3.5"],  # worlds that MuJoCo simulates
        "pandas": ["pandas>=2.0"],  # samples as a DataFrame
        "spacemouse": ["pyspacemouse>=2.0"],  # `haptics point spacemouse`; needs the system's hidapi
        "statistics": ["statsmodels>=0.14"],  # mixed models of studies
        "test": [
            "example-robot-data>=4",
            "hypothesis>=6.90",
            "mujoco>=3.5",
            "mypy>=1.8",
            "pytest>=7.4",
            "pytest-xdist>=3.5",
            "ruff>=0.6",
            "types-pyyaml",
        ],
        "view": ["viser>=1.1,<2"],  # the page of `haptics view`
    },
)
