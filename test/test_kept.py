"""Arrays that are kept: under what they are made from, once, and never from what others can have written."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from haptic_sim import cache_folder, kept
from haptic_sim.kept import digest_of


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache_folder, "_judged", {})
    return tmp_path / "cache" / "things"


def counted(value: float) -> tuple[Callable[[], dict[str, np.ndarray]], list[int]]:
    calls: list[int] = []

    def build() -> dict[str, np.ndarray]:
        calls.append(1)
        return {"a": np.full(3, value), "b": np.array(7)}

    return build, calls


def test_arrays_are_built_once() -> None:
    build, calls = counted(1.5)
    first, was_kept = kept.kept("things", "d" * 64, build)
    again, was_kept_again = kept.kept("things", "d" * 64, build)
    assert (was_kept, was_kept_again, len(calls)) == (False, True, 1)
    np.testing.assert_array_equal(first["a"], again["a"])
    assert int(again["b"]) == 7


def test_digests_differ_by_values_shapes_types_and_numbers() -> None:
    a = np.arange(6.0)
    found = [
        digest_of(a),
        digest_of(a.reshape(2, 3)),
        digest_of(a.astype(np.float32)),
        digest_of(a, 0.1),
        digest_of(a, 0.2),
        digest_of(a, None),
        digest_of(np.nextafter(a, 9.0)),
    ]
    assert len(set(found)) == len(found)
    assert digest_of(a) == digest_of(a[::1].copy())


def test_what_is_damaged_is_built_again(folder: Path) -> None:
    build, calls = counted(1.0)
    kept.kept("things", "e" * 64, build)
    (file,) = folder.glob("*.arrays")
    content = bytearray(file.read_bytes())
    content[-20] ^= 1
    file.write_bytes(content)
    assert kept.kept("things", "e" * 64, build)[1] is False and len(calls) == 2
    assert kept.kept("things", "e" * 64, build)[1] is True


@pytest.mark.filterwarnings("ignore:.*it is not used")
def test_what_others_can_have_written_is_not_used(folder: Path) -> None:
    build, calls = counted(1.0)
    kept.kept("things", "f" * 64, build)
    (file,) = folder.glob("*.arrays")
    file.chmod(0o666)
    assert kept.kept("things", "f" * 64, build)[1] is False and len(calls) == 2


def test_where_nothing_can_be_kept_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HAPTICS_CACHE_DIR", str(tmp_path / "file"))
    build, _ = counted(2.0)
    with pytest.warns(RuntimeWarning, match="cannot be kept in"):
        arrays, was_kept = kept.kept("things", "0" * 64, build)
    assert not was_kept and arrays["a"][0] == 2.0


def test_what_was_used_longest_ago_goes_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, digest in enumerate(("1" * 64, "2" * 64, "3" * 64)):
        kept.kept("things", digest, counted(float(i))[0])
        os.utime(folder / f"{digest}.arrays", (i + 1, i + 1))
    size = (folder / f"{'1' * 64}.arrays").stat().st_size
    monkeypatch.setattr(kept, "MOST", 3 * size)
    kept.kept("things", "4" * 64, counted(4.0)[0])
    assert sorted(path.name[0] for path in folder.glob("*.arrays")) == ["2", "3", "4"]


def test_of_two_that_need_the_same_one_builds_it() -> None:
    calls: list[int] = []
    begun, may_end = threading.Event(), threading.Event()

    def slow() -> dict[str, np.ndarray]:
        calls.append(1)
        begun.set()
        assert may_end.wait(100.0)
        return {"a": np.zeros(1)}

    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(kept.kept("things", "9" * 64, slow)[1])) for _ in range(2)]
    threads[0].start()
    assert begun.wait(100.0)
    threads[1].start()
    may_end.set()
    for thread in threads:
        thread.join(100.0)
    assert sorted(found) == [False, True] and len(calls) == 1
