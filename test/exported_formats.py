"""Reads back what `haptics export` has written, and compares it with the samples: bit by bit.

python test/exported_formats.py TRIAL OUT, with h5py, zarr, pyarrow and pandas importable; ends with an error where a
number differs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from haptic_bench.commands.export import exported_table
from haptic_bench.recording.exports import FORMATS
from haptic_bench.recording.tables import TrialTable


def read_hdf5(out: Path, table: TrialTable, number: int) -> dict[str, np.ndarray]:
    import h5py

    with h5py.File(out / "trials.h5") as file:
        group = file[f"trial_{number}"]
        assert json.loads(group["metadata"][()])["rate"] == table.metadata["rate"]
        assert [one["name"] for one in json.loads(group["events"][()])] == [one.name for one in table.events]
        assert group["samples/hand_px"].attrs["unit"] == "m" and group["samples/hand_px"].attrs["frame"] == "world"
        return {name: array[()] for name, array in group["samples"].items()}


def read_zarr(out: Path, table: TrialTable, number: int) -> dict[str, np.ndarray]:
    import zarr

    group = zarr.open_group(str(out / "trials.zarr"), mode="r")[f"trial_{number}"]
    assert group.attrs["metadata"]["rate"] == table.metadata["rate"]
    assert group["samples/env_tx"].attrs["unit"] == "N m"
    return {name: array[:] for name, array in group["samples"].arrays()}


def read_lerobot(out: Path, table: TrialTable, number: int) -> dict[str, np.ndarray]:
    import pandas
    import pyarrow.parquet as pq

    info = json.loads((out / "meta/info.json").read_text())
    place = {"chunk_index": 0, "file_index": 0}
    rows = pq.read_table(out / info["data_path"].format(**place)).to_pandas()
    episode = pq.read_table(out / "meta/episodes/chunk-000/file-000.parquet").to_pylist()[number]
    tasks = pandas.read_parquet(out / "meta/tasks.parquet")
    first, last = episode["dataset_from_index"], episode["dataset_to_index"]
    assert tasks.index.name == "task" and int(tasks.loc[table.metadata["title"]].task_index) == 0
    assert episode["tasks"] == [table.metadata["title"]] and episode["length"] == last - first == table.rows
    part = rows.iloc[first:last]
    assert part["index"].tolist() == list(range(first, last)) and set(part["episode_index"]) == {number}
    # LeRobot wants the steps of timestamps equal to 1/fps within 1e-4 s (datasets/utils.py, tolerance_s)
    steps = np.diff(part["timestamp"].to_numpy().astype(float))
    np.testing.assert_allclose(steps, 1.0 / info["fps"], atol=1e-4)
    found = {}
    for key in ("action", "observation.state"):
        feature, values = info["features"][key], np.stack(part[key].to_numpy())
        assert feature["shape"] == [values.shape[1]] and feature["dtype"] == str(values.dtype)
        low = json.loads((out / "meta/stats.json").read_text())[key]["min"]
        np.testing.assert_array_equal(np.stack(rows[key].to_numpy()).min(0), low)
        found |= {name: values[:, i] for i, name in enumerate(feature["names"])}
    return found


READERS = {"hdf5": read_hdf5, "zarr": read_zarr, "lerobot": read_lerobot}


def main(trial: Path, out: Path) -> None:
    """Write and read back two copies of a trial in each format."""
    table = exported_table(trial)
    for form, read in READERS.items():
        place = out / form
        place.mkdir(parents=True)
        FORMATS[form]([table, table], place)
        for number in range(2):
            found = read(place, table, number)
            assert found.keys() == table.columns.keys(), form
            for name, column in table.columns.items():
                np.testing.assert_array_equal(found[name], column.values, err_msg=f"{form}: {name}")
                assert found[name].dtype == column.values.dtype or form == "lerobot"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
