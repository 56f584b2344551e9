"""Writers of recorded trials in the formats of other tools: CSV, HDF5, Zarr and LeRobot's datasets.

Each takes tables (`tables.TrialTable`) and an empty directory. The packages that a format needs are imported when it is
written. Numbers are written as they are, in 64 bits: what is read back equals the samples.
"""

from __future__ import annotations

import csv
import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from haptic_bench.recording.tables import Event, TrialTable
from haptic_sim.parameters import ParameterError

Tables = Sequence[TrialTable]
INFO, DATA = "meta/info.json", "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
FIRST = {"chunk_index": 0, "file_index": 0}
ACTION = ("hand_",)
"""Beginnings of the columns that are the action of a LeRobot dataset: what the person did with the device."""
_MOTION = ("px", "py", "pz", "qx", "qy", "qz", "qw", "vx", "vy", "vz", "wx", "wy", "wz")
_COUNTERS = ("timestamp", "frame_index", "episode_index", "index", "task_index")


def needed(module: str, form: str, package: str) -> Any:
    """A module that a format needs.

    Raises:
        ParameterError: it is not installed; says what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ParameterError(
            [f"--format {form}: needs {package}, which is not installed: `./haptics shell pip install {package}`"]
        ) from error


def trial_name(number: int) -> str:
    """Name of a trial's part of an export."""
    return f"trial_{number}"


def write_csv(tables: Tables, out: Path) -> None:
    """A folder for each trial: samples.csv, events.csv and metadata.json."""
    for number, table in enumerate(tables):
        folder = out / trial_name(number)
        folder.mkdir()
        with (folder / "samples.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(table.columns)
            rows.writerows(zip(*(one.values.tolist() for one in table.columns.values()), strict=True))
        with (folder / "events.csv").open("w", encoding="utf-8", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(Event._fields)
            rows.writerows(table.events)
        (folder / "metadata.json").write_text(_json(table.described(), indent=2), encoding="utf-8")


def write_hdf5(tables: Tables, out: Path) -> None:
    """One file, trials.h5: a group for each trial with a dataset for each column, and texts of JSON beside them."""
    h5py = needed("h5py", "hdf5", "h5py")
    with h5py.File(out / "trials.h5", "w") as file:
        for number, table in enumerate(tables):
            group = file.create_group(trial_name(number))
            # attributes of HDF5 hold 64 KiB at most, datasets any text
            group.create_dataset("metadata", data=_json(table.described()))
            group.create_dataset("events", data=_json([one._asdict() for one in table.events]))
            samples = group.create_group("samples")
            for name, column in table.columns.items():
                array = samples.create_dataset(name, data=column.values)
                array.attrs["unit"], array.attrs["frame"] = column.unit, column.frame


def write_zarr(tables: Tables, out: Path) -> None:
    """One group, trials.zarr: a group for each trial with an array for each column, and attributes."""
    zarr = needed("zarr", "zarr", "zarr>=3")
    root = zarr.create_group(store=str(out / "trials.zarr"))
    for number, table in enumerate(tables):
        group = root.create_group(trial_name(number))
        described = {"metadata": table.described(), "events": [one._asdict() for one in table.events]}
        group.attrs.update(json.loads(_json(described)))
        samples = group.create_group("samples")
        for name, column in table.columns.items():
            array = samples.create_array(name, data=column.values)
            array.attrs.update({"unit": column.unit, "frame": column.frame})


def write_lerobot(tables: Tables, out: Path) -> None:
    """A dataset of LeRobot, version 3.0 of its format: an episode for each trial, without images.

    The action is pose and twist of the hand; `observation.state` has all other columns. Both are of 64 bits. The names
    of a vector's elements are those of the columns; units, frames and events are in meta/haptics.json.

    Raises:
        ParameterError: pyarrow is not installed, or the trials have different columns, or steps that are not equal.
    """
    pa, pq = needed("pyarrow", "lerobot", "pyarrow"), needed("pyarrow.parquet", "lerobot", "pyarrow")
    _check_episodes(tables)
    names = list(tables[0].columns)
    ends = {f"{prefix}{end}" for prefix in ACTION for end in _MOTION}
    action = [name for name in names if name in ends]
    groups = {"observation.state": [name for name in names if name not in ends]}
    groups |= {"action": action} if action else {}
    fps = round(tables[0].metadata["rate"])
    tasks = list(dict.fromkeys(str(table.metadata["title"]) for table in tables))
    features = {
        key: {"dtype": "float64", "shape": [len(group)], "names": group} for key, group in groups.items()
    } | {
        key: {"dtype": "float32" if key == "timestamp" else "int64", "shape": [1], "names": None}
        for key in _COUNTERS
    }  # fmt: skip
    parts, episodes, first = [], [], 0
    for number, table in enumerate(tables):
        rows, task = np.arange(table.rows), tasks.index(str(table.metadata["title"]))
        values: dict[str, np.ndarray] = {
            key: np.stack([table.columns[name].values.astype(np.float64) for name in group], axis=1)
            for key, group in groups.items()
        }
        values |= {
            "timestamp": (rows / fps).astype(np.float32),
            "frame_index": rows,
            "episode_index": np.full(table.rows, number),
            "index": first + rows,
            "task_index": np.full(table.rows, task),
        }
        parts.append(values)
        episodes.append(
            {
                "episode_index": number,
                "tasks": [tasks[task]],
                "length": table.rows,
                "data/chunk_index": 0,
                "data/file_index": 0,
                "dataset_from_index": first,
                "dataset_to_index": first + table.rows,
                **{f"stats/{key}/{of}": each for key, stats in _stats(values).items() for of, each in stats.items()},
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
        )
        first += table.rows
    whole = {key: np.concatenate([part[key] for part in parts]) for key in features}
    arrays = {
        key: pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])
        if values.ndim == 2
        else pa.array(values)
        for key, values in whole.items()
    }
    data = out / DATA.format(**FIRST)
    kept = out / f"meta/episodes/{data.parent.name}/{data.name}"
    for path in (data, kept):
        path.parent.mkdir(parents=True)
    pq.write_table(pa.table(arrays), data)
    pq.write_table(pa.Table.from_pylist(episodes), kept)
    pq.write_table(_indexed(pa.table({"task_index": range(len(tasks)), "task": tasks})), out / "meta/tasks.parquet")
    info = {
        "codebase_version": "v3.0",
        "robot_type": "haptics",
        "total_episodes": len(tables),
        "total_frames": first,
        "total_tasks": len(tasks),
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "fps": fps,
        "splits": {"train": f"0:{len(tables)}"},
        "data_path": DATA,
        "video_path": None,
        "features": features,
    }
    (out / INFO).write_text(_json(info, indent=4), encoding="utf-8")
    (out / "meta/stats.json").write_text(_json(_stats(whole), indent=4), encoding="utf-8")
    more = [table.described() | {"events": [one._asdict() for one in table.events]} for table in tables]
    (out / "meta/haptics.json").write_text(_json(more, indent=2), encoding="utf-8")


def _check_episodes(tables: Tables) -> None:
    """Make sure that trials can be episodes of one dataset."""
    problems, first = [], tables[0]
    for number, table in enumerate(tables):
        rate, tick = table.metadata["rate"], table.columns["tick"].values
        if different := sorted(table.columns.keys() ^ first.columns.keys()):
            problems.append(f"trial {number}: has not the columns of the first: {', '.join(different[:5])}")
        if rate != round(rate) or rate != first.metadata["rate"]:
            problems.append(f"trial {number}: rate = {rate:g} Hz: must be a whole number, the same of all trials")
        if missing := int(np.count_nonzero(np.diff(tick) != 1)):
            problems.append(f"trial {number}: has {missing} gaps between its ticks: LeRobot needs equal steps")
    if problems:
        raise ParameterError([f"--format lerobot: {line}; export it as hdf5, zarr or csv" for line in problems])


def _stats(values: dict[str, np.ndarray]) -> dict[str, dict[str, list[Any]]]:
    """Least, largest and mean value, standard deviation and number of each feature."""
    found = {}
    for key, rows in values.items():
        table = rows.reshape(len(rows), -1).astype(np.float64)
        parts = {"min": table.min(0), "max": table.max(0), "mean": table.mean(0), "std": table.std(0)}
        found[key] = {name: part.tolist() for name, part in parts.items()} | {"count": [len(rows)]}
    return found


def _indexed(tasks: Any) -> Any:
    """A table whose column `task` is the index to pandas, as LeRobot reads its tasks."""
    column = {"pandas_type": "int64", "numpy_type": "int64", "metadata": None}
    index = {"pandas_type": "unicode", "numpy_type": "object", "metadata": None}
    columns = [
        {"name": "task_index", "field_name": "task_index", **column},
        {"name": "task", "field_name": "task", **index},
    ]
    described = {"index_columns": ["task"], "column_indexes": [], "columns": columns, "pandas_version": "2.0.0"}
    return tasks.replace_schema_metadata({"pandas": _json(described)})


def _json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=False)


FORMATS: dict[str, Callable[[Tables, Path], None]] = {
    "csv": write_csv,
    "hdf5": write_hdf5,
    "lerobot": write_lerobot,
    "zarr": write_zarr,
}
