"""The gallery: one page of many trials."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Haptics, answer

from haptic_bench.catalogue import catalogue
from haptic_bench.recording.summary import write_summary
from haptic_bench.report.gallery import write_gallery


def trial(directory: Path, status: str, verdicts: list[bool | None], reason: str = "") -> None:
    """What a gallery reads of a trial."""
    directory.mkdir()
    claims = [{"name": str(i), "statement": f"a < {i} & b", "holds": holds} for i, holds in enumerate(verdicts)]
    write_summary(
        directory,
        {"mode": "offline", "status": status, "reason": reason, "claims": claims, "experiment": directory.name},
    )


def test_the_page_tells_of_each_trial_what_it_found(tmp_path: Path) -> None:
    trial(tmp_path / "incline", "done", [True, True, False, None])
    (tmp_path / "incline" / "report.html").touch()
    (tmp_path / "incline" / "figures").mkdir()
    (tmp_path / "incline" / "figures" / "a.svg").write_text("<svg/>")
    trial(tmp_path / "crank", "failed", [], "the disk <is> full")
    known = {name: catalogue()[name] for name in ("incline", "crank", "stack")}
    page = write_gallery(tmp_path, known).read_text(encoding="utf-8")
    incline, crank, stack = page.split('<figure class="card">')[1:]
    assert "2 hold<" in incline and "1 do not<" in incline and "1 undecided<" in incline
    assert "a &lt; 3 &amp; b" in incline and 'href="incline/report.html"' in incline
    assert ': a" src="data:image/svg+xml;base64,PHN2Zy8+"' in incline  # its alternative text ends with the file's name
    assert "failed: the disk &lt;is&gt; full" in crank and "no claims" in crank and "href" not in crank
    assert "not run" in stack
    assert not re.search(r'(src|href)="(?!data:|incline/)', page)  # holds all that it shows


@pytest.mark.exhaustive
def test_experiments_run_and_are_on_the_page(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    run = haptics("gallery", str(tmp_path / "out"), "incline", "static_wall", "--quiet")
    assert run.wait() == 0, run.err
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count('<figure class="card">') == 2 == page.count('class="scene"')
    assert page.count('class="halt"') == 1  # one switch stops all pictures
    for name in ("incline", "static_wall"):
        assert f'href="{name}/report.html"' in page and (tmp_path / "out" / name / "report.html").is_file()


@pytest.mark.parametrize(("names", "said"), [(["crnak"], "did you mean crank?"), ([], "is not empty")])
def test_what_cannot_be_is_one_line(tmp_path: Path, names: list[str], said: str) -> None:
    (tmp_path / "there").touch()
    done = answer("gallery", str(tmp_path), *names)
    assert done.status == 2 and said in done.err and done.err.count("\n") == 1
