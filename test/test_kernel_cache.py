"""What a changed source makes stale: the kernels of its file, and those that have compiled it in."""

from __future__ import annotations

from pathlib import Path

import pytest

from haptic_bench.kernel_cache import refresh


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A calls b, b calls c; d calls none of them; plain.py has no kernels."""
    package = tmp_path / "haptic_sim"
    package.mkdir()
    for name, text in {
        "a": "from haptic_sim.b import f\n@numba.njit\n",
        "b": "from .c import g\n@numba.njit\n",
        "c": "@numba.njit\n",
        "d": "from haptic_sim.plain import h\n@numba.njit\n",
        "plain": "from haptic_sim.c import g\n",
    }.items():
        (package / f"{name}.py").write_text(text)
    folder = tmp_path / "cache" / "haptic_sim_0"
    folder.mkdir(parents=True)
    for name in "abcd":
        for kind in ("nbi", "nbc"):
            (folder / f"{name}.kernel-3.py311.{kind}").write_text("")
    return tmp_path


def kept(root: Path) -> str:
    return "".join(sorted(path.name[0] for path in (root / "cache").glob("*/*.nbi")))


def test_nothing_is_forgotten_while_nothing_changes(root: Path) -> None:
    for _ in range(3):
        assert refresh(root, root / "cache") == []
    assert kept(root) == "abcd"


@pytest.mark.parametrize(("changed", "left"), [("a", "bcd"), ("b", "cd"), ("c", "d"), ("d", "abc"), ("plain", "abcd")])
def test_a_change_reaches_all_that_compiled_it_in(root: Path, changed: str, left: str) -> None:
    refresh(root, root / "cache")
    path = root / "haptic_sim" / f"{changed}.py"
    path.write_text(path.read_text() + "# other\n")
    stale = refresh(root, root / "cache")
    assert kept(root) == left
    assert stale == sorted(f"haptic_sim.{name}" for name in "abcd" if name not in left)
    assert refresh(root, root / "cache") == []


def test_a_kernel_for_arguments_of_a_changed_module_is_forgotten(root: Path) -> None:
    """Its own module need not know that one: the signature in the index does, which is unreadable without the type."""
    (root / "cache" / "haptic_sim_0" / "c.kernel-3.py311.nbi").write_bytes(b"\x8c\x0chaptic_sim.d\x94\x8c\x06Arrays")
    refresh(root, root / "cache")
    path = root / "haptic_sim" / "d.py"
    path.write_text(path.read_text() + "# other\n")
    refresh(root, root / "cache")
    assert kept(root) == "ab"


def test_a_record_that_was_cut_short_forgets_all(root: Path) -> None:
    refresh(root, root / "cache")
    (root / "cache" / "sources.json").write_text('{"haptic_sim.a": ')
    refresh(root, root / "cache")
    assert kept(root) == ""


def test_without_a_cache_nothing_is_done(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert refresh(root) == []
