"""Readers of what comes from outside, each fed with bytes: it takes them, or refuses them by an error of its own.

    python -m campaign.fuzz formula --seconds 60

searches with atheris, which watches what of the reader each input has reached (`pip install atheris` into the
environment; nothing else needs it), from the kept inputs of `campaign/corpus/`. An input with a fault is added to them.
The tests feed all that is kept, and the campaign's probe `inputs` changes it at random.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import io
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from haptic_sim.errors import HapticsError

CORPUS = Path(__file__).with_name("corpus")
LARGEST = 200_000  # [B] of an input
HANGS = 60  # [s] after which a reader hangs


class Target(NamedTuple):
    """A reader.

    Attributes:
        feed: it with bytes, in an empty folder.
        modules: whose branches atheris watches; those of kernels cannot be watched.
    """

    feed: Callable[[bytes, Path], object]
    modules: tuple[str, ...]


def _formula(data: bytes, folder: Path) -> None:
    from haptic_sim.constraints import formulas  # watched by atheris from here on

    tree = formulas.parse(data.decode("utf-8", "surrogateescape"), ("x", "y", "t"))
    with np.errstate(all="ignore"):
        formulas.evaluate(tree, {"x": 0.5, "y": -2.0, "t": 0.0})


def _yaml(data: bytes, folder: Path) -> None:
    from haptic_sim import inputs  # watched by atheris from here on

    (folder / "one.yaml").write_bytes(data)
    inputs.read_mapping(folder / "one.yaml")


def _json(data: bytes, folder: Path) -> None:
    from haptic_sim import inputs  # watched by atheris from here on

    (folder / "one.json").write_bytes(data)
    inputs.read_json(inputs.read_text(folder / "one.json"))


def _table(data: bytes, folder: Path) -> None:
    from haptic_drivers.operators import FileParameters  # watched by atheris from here on

    lines = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", errors="surrogateescape")
    FileParameters(path="hand.csv").read_file(lines, "hand.csv")


def _model(data: bytes, folder: Path) -> None:
    from haptic_sim.worlds.model_files import load_trees  # watched by atheris from here on

    kinds = {b"<mujoco": "one.xml", b"xmlns:xacro": "one.xacro", b"<sdf": "one.sdf"}
    path = folder / next((name for mark, name in kinds.items() if mark in data), "one.urdf")
    path.write_bytes(data)
    load_trees(path, None)


def _mesh(data: bytes, folder: Path) -> None:
    from haptic_sim.geometry.mesh_files import read_mesh  # watched by atheris from here on

    path = folder / ("one.stl" if data[:1] in b"s\0" else "one.ply" if data[:1] == b"p" else "one.obj")
    path.write_bytes(data)
    read_mesh(path)


def _bag(data: bytes, folder: Path) -> None:
    from haptic_bench.recording import bag  # watched by atheris from here on

    (folder / "bag").mkdir()
    (folder / "bag" / "bag_0.mcap").write_bytes(data)
    try:
        bag.read(folder / "bag")
    except HapticsError:
        bag.repair(folder / "bag")
        bag.read(folder / "bag")


def _message(data: bytes, folder: Path) -> None:
    from haptic_bench.recording.trial_bag import read_event  # watched by atheris from here on
    from haptic_sim.messages import TOPICS, MessageError, stamp_of  # watched by atheris from here on

    faults = 0
    for read in (*(layout().load for layout in TOPICS.values()), read_event, stamp_of):
        try:
            read(data)
        except MessageError:
            faults += 1


def _board(data: bytes, folder: Path) -> None:
    """Answers of a Haply 2diy, each of which is the next nine bytes."""
    from haptic_bench.experiment.devices import read_device  # watched by atheris from here on
    from haptic_drivers.devices.haply_2diy import Connection, Haply2diy  # watched by atheris from here on

    ours, board = socket.socketpair()
    with ours, board:
        device = Haply2diy(read_device("haply_2diy"), Connection(port="/dev/null"))
        answers = (data[at : at + 9] for at in range(0, len(data), 9))
        vars(device)["_file"] = ours.fileno()
        vars(device)["_send_torques"] = lambda torques: board.send(next(answers, b""))
        for _ in range(min(len(data) // 9, 50)):
            jacobian = device._exchange(np.zeros(2), 0.001)
            if not np.isfinite(jacobian).all():
                raise ValueError(f"a Jacobian that is not finite: {jacobian}")


def _service(data: bytes, folder: Path) -> None:
    """Messages of Haply's service about an Inverse3."""
    from haptic_drivers.devices import haply  # watched by atheris from here on

    haply._content(data.decode("utf-8", "surrogateescape"))


TARGETS: dict[str, Target] = {
    "formula": Target(_formula, ("haptic_sim.constraints.formulas",)),
    "yaml": Target(_yaml, ("haptic_sim.inputs",)),
    "json": Target(_json, ("haptic_sim.inputs",)),
    "table": Target(_table, ("haptic_drivers.operators", "haptic_sim.inputs")),
    "model": Target(
        _model,
        tuple(
            f"haptic_sim.worlds.{name}"
            for name in (
                *("model_files", "xml_files", "urdf", "mjcf", "mjcf_equality", "file_trees", "packages"),
                *("xacro", "xacro_expressions", "sdf", "sdf_frames"),
            )
        ),
    ),
    "mesh": Target(_mesh, ("haptic_sim.geometry.mesh_files", "trimesh.exchange")),
    "bag": Target(_bag, ("haptic_bench.recording.bag", "mcap")),
    "message": Target(_message, ("haptic_bench.recording.trial_bag",)),
    "board": Target(_board, ("haptic_drivers.devices.haply_2diy",)),
    "service": Target(_service, ("haptic_drivers.devices.haply",)),
}


def kept(name: str) -> Iterator[Path]:
    """The kept inputs of a reader."""
    yield from sorted((CORPUS / name).iterdir())


def keep(name: str, data: bytes) -> Path:
    """Add an input to those that are kept."""
    path = CORPUS / name / hashlib.sha256(data).hexdigest()[:12]
    path.write_bytes(data)
    return path


def fault_of(name: str, data: bytes) -> str:
    """Fault of how a reader handles an input; empty if there is none."""

    def hangs(number: int, frame: Any) -> None:
        raise TimeoutError(f"hangs: has not answered after {HANGS} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANGS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            TARGETS[name].feed(data, Path(folder))
    except HapticsError as error:
        return "" if str(error) else f"{type(error).__name__} without a text"
    except Exception as error:  # nothing else may come out of a reader
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    return ""


def search(name: str, seconds: int) -> None:
    """Search with atheris; it ends the process."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        sys.exit("campaign.fuzz: atheris is not installed: ./haptics shell pip install atheris")
    with atheris.instrument_imports(include=list(TARGETS[name].modules)):
        for module in TARGETS[name].modules:
            importlib.import_module(module)

    def feed(data: bytes) -> None:
        fault = fault_of(name, data)
        if fault:
            raise RuntimeError(f"{fault}; kept in {keep(name, data)}")

    with tempfile.TemporaryDirectory() as found:
        limits = [f"-max_total_time={seconds}", f"-max_len={LARGEST}", f"-artifact_prefix={found}/", "-verbosity=0"]
        atheris.Setup([sys.argv[0], *limits, "-print_final_stats=1", found, str(CORPUS / name)], feed)
        atheris.Fuzz()


def main() -> None:
    """Search for inputs that a reader neither takes nor refuses."""
    parser = argparse.ArgumentParser(prog="python -m campaign.fuzz", description=main.__doc__)
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    search(options.target, options.seconds)


if __name__ == "__main__":
    main()
