"""Files that are wrong: experiments, worlds, models, tables and bags, changed at random; each is refused in words."""

from __future__ import annotations

import contextlib
import copy
import io
import shutil
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from campaign import fuzz
from campaign.cases import Outcome
from haptic_bench import experiment
from haptic_bench.catalogue import catalogue
from haptic_bench.commands import command_line
from haptic_bench.trials.recorded import load_one, run
from haptic_sim.parameters import ParameterError

ROOT = Path(__file__).resolve().parents[1]
MODELS = {
    "examples/arm.urdf": "lower",
    "config/worlds/mujoco_clutter.xml": "rod",
    "config/worlds/mujoco_drawer.xml": "fore",
    "config/worlds/mujoco_peg.xml": "peg",
    "campaign/corpus/worlds/arm.urdf.xacro": "left",
    "campaign/corpus/worlds/room.sdf": "arm::ball",
}
"""Files of models, and the body of each that is held."""
CELL = "campaign/corpus/worlds/cell"  # the package of the last two: macros, sizes, a mesh, a height map, a model
BATCH = 40  # files of a case
TICKS = 20  # of an experiment that is accepted
STATUSES = {0, 1, 2}
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, "", "x", [], {}, [[]], "null", "[1, 2]", "1e3", "0x10", "-", "\N{SNOWMAN}", "9" * 400),
    *(0, -1, 1, 1e-300, 1e300, -1e300, float("nan"), float("inf"), 5e-324, 2**63, -(2**63), 10**40, 1e-9, 1e9),
    *(
        "/dev/zero",
        "../../etc/passwd",
        "module:Class",
        "os:system",
        {"type": "x"},
        {"type": None},
        [{}],
        {"a": {"a": {}}},
    ),
)


def case(number: int, folder: Path) -> Outcome:
    """Some files, each changed in a few places; in every sixth case kept inputs of readers (`fuzz`)."""
    rng = np.random.default_rng([3, number])
    if number % 6 == 5:
        return _kept(rng)
    kinds: tuple[Callable[[np.random.Generator, Path], tuple[str, ...]], ...] = (
        _experiment,
        _bytes,
        _model,
        _table,
        _bag,
    )
    kind = kinds[number % len(kinds)]
    faults = []
    for one in range(BATCH):
        place = folder / str(one)
        place.mkdir()
        command = kind(rng, place)
        found = call(*command) or _runs(command)
        if found:
            faults.append(f"{' '.join(command)}: {found}")
        else:
            shutil.rmtree(place)
    return Outcome(f"{BATCH} of {kind.__name__.strip('_')}", faults, BATCH)


def _kept(rng: np.random.Generator) -> Outcome:
    """Kept inputs of readers, damaged; one with a fault is kept, too."""
    faults = []
    for _ in range(BATCH):
        name = str(rng.choice(list(fuzz.TARGETS)))
        paths = list(fuzz.kept(name))
        data = damaged(rng, paths[int(rng.integers(len(paths)))].read_bytes())
        if fault := fuzz.fault_of(name, data):
            faults.append(f"{name}: {fault}; kept in {fuzz.keep(name, data)}")
    return Outcome(f"{BATCH} of kept inputs", faults, BATCH)


def call(*arguments: str) -> str:
    """Fault of how a command ends, which is called in this process; empty if there is none."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command_line.main(list(arguments))
    except SystemExit as error:  # of the parser
        status = int(error.code or 0)
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    text = err.getvalue()
    if "Traceback" in text or "an error of haptics" in text:
        return text[-1500:]
    if status not in STATUSES:
        return f"exit status {status}: {text[-300:]}"
    if status == 2 and not text.startswith("haptics: "):
        return f"exit status 2 without a line that begins with haptics: {text[-300:]}"
    return ""


def _runs(command: tuple[str, ...]) -> str:
    """Fault in some ticks of an experiment that is accepted; empty if there is none."""
    if command[0] != "validate":
        return ""
    try:
        trial = load_one(command[1], {"analysis": "trial"}, None)
        run(command[1], {"analysis": "trial"}, duration=TICKS / trial.experiment.rate)
    except ParameterError:
        return ""
    except Exception:  # nothing else may come out
        return f"run: {traceback.format_exc()[-1500:]}"
    return ""


@cache
def _documents() -> tuple[dict[str, Any], ...]:
    """The experiments of the catalogue with all their keys."""
    found = []
    for name in sorted(catalogue()):
        trial = experiment.load(name)[0]
        found.append(trial.experiment.model_dump(mode="json"))
    return tuple(found)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places of everything in a document."""
    if place:
        yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from _places(part, (*place, key))


def _experiment(rng: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """An experiment with a few keys that are wrong, missing, or those of another experiment."""
    documents = _documents()
    document = copy.deepcopy(documents[int(rng.integers(len(documents)))])
    for _ in range(int(rng.integers(1, 4))):
        places = list(_places(document))
        *way, last = places[int(rng.integers(len(places)))]
        target = document
        for key in way:
            target = target[key]
        how = rng.uniform()
        if how < 0.15:
            del target[last]
        elif how < 0.3:
            other = documents[int(rng.integers(len(documents)))]
            key = list(other)[int(rng.integers(len(other)))]
            document[key] = copy.deepcopy(other[key])
        elif how < 0.5 and isinstance(target[last], float | int):
            target[last] = float(target[last]) * float(rng.choice([-1.0, 1e-3, 1e3, 1e-6, 1e6, 0.0]))
        else:
            target[last] = copy.deepcopy(HOSTILE[int(rng.integers(len(HOSTILE)))])
    (folder / "one.yaml").write_text(yaml.safe_dump(document, allow_unicode=True))
    return "validate", str(folder / "one.yaml")


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """Bytes with a few changes: flipped, left out, repeated, cut off."""
    for _ in range(int(rng.integers(1, 6))):
        if not data:
            break
        at, more = int(rng.integers(len(data))), int(rng.integers(1, 60))
        how = int(rng.integers(5))
        if how == 0:
            data = data[:at] + bytes([int(rng.integers(256))]) + data[at + 1 :]
        elif how == 1:
            data = data[:at] + data[at + more :]
        elif how == 2:
            data = data[:at] + data[at : at + more] * int(rng.integers(2, 5)) + data[at + more :]
        elif how == 3:
            data = (
                data[:at]
                + rng.choice([b"-1", b"1e999", b"nan", b"<", b"&x;", b"[", b"\0", b"\xff\xfe", b": "])
                + data[at:]
            )
        elif rng.uniform() < 0.3:
            data = data[:at]
    return data


def _bytes(rng: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """An experiment's file with bytes that are wrong."""
    documents = _documents()
    text = yaml.safe_dump(documents[int(rng.integers(len(documents)))], sort_keys=False)
    (folder / "one.yaml").write_bytes(damaged(rng, text.encode()))
    return "validate", str(folder / "one.yaml")


def _model(rng: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A world from a URDF, MJCF, xacro or SDF with bytes that are wrong, in it or in a file that it names."""
    given, tool = list(MODELS.items())[int(rng.integers(len(MODELS)))]
    name, files = Path(given).name, [folder / Path(given).name]
    shutil.copy(ROOT / given, folder)
    if given.startswith(str(Path(CELL).parent)):
        shutil.copytree(ROOT / CELL, folder / "cell")
        files += sorted(path for path in (folder / "cell").rglob("*") if path.is_file())
    path = files[0 if rng.uniform() < 0.5 else int(rng.integers(len(files)))]
    path.write_bytes(damaged(rng, path.read_bytes()))
    mujoco = name.endswith(".xml") and rng.uniform() < 0.5
    keys: dict[str, Any] = {"path": name}
    if rng.uniform() < 0.2:
        keys["meshes"] = str(rng.choice(["automatic", "hull", "field"]))
        keys["error"] = float(10.0 ** rng.uniform(-3.0, -0.5))
    if name.endswith(".xacro") and rng.uniform() < 0.3:
        keys["args"] = {"kind": str(rng.choice(["short", "long", "none"])), "gripper": bool(rng.uniform() < 0.5)}
    if len(files) > 1:
        keys["packages"] = ["cell"]
    scene: dict[str, Any] = {"type": "mujoco", "file": name} if mujoco else {"type": "world", "files": {"robot": keys}}
    scene["tool"] = tool if mujoco else f"robot/{tool}"
    document: dict[str, Any] = {"duration": 0.1, "rate": 1000.0, "scene": scene}
    document["device"] = {"type": "inertial" if mujoco else "none"}
    document |= {"operator": {"type": "constant", "wrench": [0.0] * 6}}
    (folder / "one.yaml").write_text(yaml.safe_dump(document))
    return "validate", str(folder / "one.yaml")


def _table(rng: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A recorded operator's table with bytes that are wrong."""
    rows = ["time,fx,fy,fz,tx,ty,tz", *(f"{0.01 * i:g},{i % 3},0,{-i % 5},0,0,0.01" for i in range(40))]
    (folder / "hand.csv").write_bytes(damaged(rng, "\n".join(rows).encode()))
    document = next(one for one in _documents() if one["name"] == "corner_peg")
    document = document | {"operator": {"type": "file", "path": "hand.csv"}}
    (folder / "one.yaml").write_text(yaml.safe_dump(document))
    return "validate", str(folder / "one.yaml")


@cache
def _trial(folder: Path) -> Path:
    """A recorded trial."""
    place = folder / "recorded"
    settings = ("--set", "analysis=trial", "--quiet", "--duration", "0.05", "--out", str(place))
    problem = call("run", "corner_peg", "--mode", "offline", *settings)
    if problem:
        raise RuntimeError(problem)
    return place


def _bag(rng: np.random.Generator, folder: Path) -> tuple[str, ...]:
    """A recorded trial with a file that is damaged, which is verified or reported again."""
    shutil.copytree(_trial(folder.parent), folder / "trial")
    files = sorted(path for path in (folder / "trial").rglob("*") if path.is_file() and path.suffix != ".html")
    path = files[int(rng.integers(len(files)))]
    path.write_bytes(damaged(rng, path.read_bytes()))
    if rng.uniform() < 0.3:
        return "repair", str(folder / "trial")
    return ("replay", str(folder / "trial"), "--verify") if rng.uniform() < 0.5 else ("report", str(folder / "trial"))
