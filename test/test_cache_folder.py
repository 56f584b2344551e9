"""The user's cache of generated code: what another user can have written is not executed."""

from __future__ import annotations

import fcntl
import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from haptic_sim import cache_folder
from haptic_sim.cache_folder import UntrustedError, make, objection, read, write

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that is made, with a file."""
    write(tmp_path / "cache" / "kernels" / "file", b"content")
    return tmp_path / "cache" / "kernels"


def test_what_is_written_can_be_read_and_belongs_to_the_user_alone(folder: Path) -> None:
    assert read(folder / "file") == b"content"
    assert [path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "file")] == [0o700, 0o700, 0o600]


def test_a_mask_of_the_shell_does_not_open_the_folder(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write(tmp_path / "a" / "b" / "file", b"content")
    finally:
        os.umask(before)
    assert read(tmp_path / "a" / "b" / "file") == b"content"


@pytest.mark.filterwarnings("ignore:.*it is not used")
@pytest.mark.parametrize("of", ["file", ".", ".."])
@pytest.mark.parametrize("mode", [0o777, 0o702, 0o770])
def test_what_others_may_write_is_refused(folder: Path, of: str, mode: int) -> None:
    path = (folder / of).resolve()
    os.chown(path, -1, 0 if os.geteuid() else 1)  # a group of others, where that can be done
    path.chmod(mode)
    cache_folder._judged.clear()
    with pytest.raises(UntrustedError, match=re.escape(f"{path} can be written by others")):
        read(folder / "file")


@needs_root
@pytest.mark.filterwarnings("ignore:.*it is not used")
@pytest.mark.parametrize("of", ["file", ".", ".."])
def test_what_belongs_to_another_user_is_refused(folder: Path, of: str) -> None:
    path = (folder / of).resolve()
    os.chown(path, NOBODY, -1)
    cache_folder._judged.clear()
    with pytest.raises(UntrustedError, match=f"{re.escape(str(path))} belongs to \\w+, not to"):
        read(folder / "file")


def test_a_folder_of_others_is_not_written_to_either(folder: Path) -> None:
    folder.chmod(0o777)
    cache_folder._judged.clear()
    for use in (lambda: write(folder / "another", b""), lambda: make(folder)):
        with pytest.raises(UntrustedError, match="can be written by others"):
            use()
    assert [path.name for path in folder.iterdir()] == ["file"]


def test_a_symbolic_link_is_judged_with_all_that_it_passes(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "first").symlink_to("second")
    (tmp_path / "second").symlink_to(tmp_path / "open" / ".." / "open" / "third")
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "third").symlink_to(folder)
    assert not objection(tmp_path / "first")
    (tmp_path / "open").chmod(0o777)  # others could let `third` lead elsewhere
    assert f"{tmp_path / 'open'} can be written by others" in objection(tmp_path / "first")
    (tmp_path / "open").chmod(0o1777)  # here they cannot
    assert not objection(tmp_path / "first")


def test_a_file_that_is_a_link_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder / "file")
    with pytest.raises(OSError, match="symbolic link"):
        read(folder / "link")


def test_links_in_a_circle_are_an_objection(tmp_path: Path) -> None:
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert "symbolic links" in objection(tmp_path / "circle")


def test_a_folder_with_the_sticky_bit_may_be_passed_but_not_used(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    write(tmp_path / "shared" / "own" / "file", b"content")
    assert read(tmp_path / "shared" / "own" / "file") == b"content"
    with pytest.raises(UntrustedError, match="can be written by others"):
        write(tmp_path / "shared" / "file", b"content")


def test_a_folder_that_does_not_exist_yet_is_judged_by_those_above(tmp_path: Path) -> None:
    assert not objection(tmp_path / "a" / "b")
    tmp_path.chmod(0o777)
    assert f"{tmp_path} can be written by others" in objection(tmp_path / "a" / "b")


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test judges anew."""
    monkeypatch.setattr(cache_folder, "_judged", {})


def test_a_lock_that_is_removed_while_it_is_waited_for_keeps_the_next_ones_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second had locked the file that the first then removed, and the third a new one: both built the same."""
    lock, waits, may, real = tmp_path / "a.lock", threading.Event(), threading.Event(), fcntl.flock
    inside, leave = threading.Event(), threading.Event()

    def flock(file: Any, how: int) -> None:
        if threading.current_thread().name == "second" and not may.is_set():
            waits.set()
            assert may.wait(60.0)
        real(file, how)

    def enter() -> None:
        with cache_folder.locked(lock):
            inside.set()
            assert leave.wait(60.0)

    monkeypatch.setattr(fcntl, "flock", flock)
    second = threading.Thread(target=enter, name="second", daemon=True)
    with cache_folder.locked(lock):
        second.start()
        assert waits.wait(60.0)
    with cache_folder.locked(lock):  # the third
        may.set()
        assert not inside.wait(0.2)
    assert inside.wait(60.0)
    leave.set()
    second.join(60.0)
    assert not lock.exists()
