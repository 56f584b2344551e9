"""The report's page: well-formed, self-contained, safe, the same each time, whatever the run came to."""

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

from haptic_bench import analysis, experiment, figures, report
from haptic_bench.samples import Samples, simulated
from haptic_sim.parameters import ParameterError

VOID = {"meta", "br", "hr", "img", "input", "link"}


def run(directory, *settings, rows=None, **summary):
    """Leave in `directory` what a run leaves there; its trial and analysis."""
    (trial,) = experiment.load("corner_peg", ["duration=0.9", *settings])
    directory.mkdir(parents=True, exist_ok=True)
    experiment.write_resolved(trial, directory)
    samples = simulated(trial)
    samples = Samples({name: samples[name][:rows] for name in samples.names})
    samples.write_csv(directory / "samples.csv")
    found = analysis.analyse(trial, samples, compare=summary.get("status", "done") == "done")
    document = {
        "experiment": trial.experiment.name,
        "mode": "offline",
        "status": "done",
        "ticks": len(samples),
        "wall_time": 0.1,
        "timing": {},
        "machine": {"cpu": "a machine", "cores": 2},
        "versions": {"python": "3.11"},
        **found.summary(),
        **summary,
    }
    (directory / "summary.json").write_text(json.dumps(document))
    return trial, found


def sweep(directory, key, values):
    labels = [f"{key}={value}" for value in values]
    for label in labels:
        run(directory / label, label)
    runs = [{"label": label, "directory": label} for label in labels]
    (directory / "summary.json").write_text(json.dumps({"sweep": {"keys": [key], "runs": runs}}))


class Page(HTMLParser):
    """Checks that tags match and collects what they hold."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.references, self.text = [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        for name, value in attributes:
            assert not name.startswith("on"), "a script"
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.references.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(path):
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    directory = tmp_path_factory.mktemp("run")
    _, found = run(directory)
    return directory, report.write(directory, found)


def test_the_page_is_well_formed_and_self_contained(done):
    directory, path = done
    assert path == directory / "report.html"
    page = read(path)
    assert not {"script", "link", "img", "iframe", "object"} & set(page.tags)
    assert all(reference.startswith("#") for reference in page.references)
    assert len(page.ids) == len(set(page.ids))
    assert {reference[1:] for reference in page.references} <= set(page.ids)
    text = path.read_text(encoding="utf-8")
    namespaces = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert set(re.findall(r"https?://[^\s\"'<>]*", text)) <= namespaces
    assert "@import" not in text
    assert set(re.findall(r"url\(([^)]*)\)", text)) <= {f"#{name}" for name in page.ids}
    assert text.count("<svg") == len(list((directory / "figures").glob("*.svg")))


def test_the_page_says_what_was_run_and_found(done):
    text = " ".join(read(done[1]).text)
    for expected in (
        "Peg pushed into a corner",
        "impulse-augmented contact, impulses in full",
        "synchronous environment",
        "servo 512 Hz",
        "✓ holds",
        "max_penetration_x",
        "0.61237",
        "√(2 m gap / F)",
        "contact.stiffness",
        "figure 4.18",
        "Constantinescu",
        "a machine",
    ):
        assert expected in text, expected
    assert "does not hold" not in text


def test_figures_are_small_svg_files_without_dates(done):
    files = sorted((done[0] / "figures").glob("*.svg"))
    assert {"trajectory_a.svg", "force_x.svg", "torque.svg", "kinetic_energy_a.svg", "renderings_b.svg"} <= {
        file.name for file in files
    }
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert file.stat().st_size < 200_000
        assert "date" not in file.read_text().lower()


def test_rewriting_gives_the_same_bytes(done):
    directory, path = done
    (directory / "figures" / "stale.svg").write_text("<svg/>")
    before = {file.name: file.read_bytes() for file in (path, *(directory / "figures").glob("*.svg"))}
    report.write(directory)  # without the analysis: it is made again
    after = {file.name: file.read_bytes() for file in (path, *(directory / "figures").glob("*.svg"))}
    assert before.pop("stale.svg") == b"<svg/>"
    assert after == before


def test_everything_from_files_is_escaped(tmp_path):
    evil = '<script>alert("1")</script> & </title><b onclick=x>'
    run(
        tmp_path,
        status="interrupted",
        reason=evil,
        mode=evil,
        metrics={evil: 1.0, "peak_force": evil},
        claims=[{"name": evil, "statement": evil, "source": evil, "measured": {evil: None}, "holds": False}],
        timing={evil: evil},
        machine={evil: [evil]},
        versions=evil,
    )
    resolved = tmp_path / "experiment.yaml"
    title = json.dumps(evil)
    text = resolved.read_text().replace("title: Peg pushed into a corner", f"title: {title}")
    resolved.write_text(re.sub(r"^source: .*$", f"source: {title}", text, flags=re.MULTILINE))
    page = read(report.write(tmp_path))
    assert not {"script", "b"} & set(page.tags)
    assert " ".join(page.text).count(evil) >= 10
    assert "✗ does not hold" in page.text


@pytest.mark.parametrize("rows", [0, 1])
def test_a_run_of_no_or_one_sample_has_a_page_without_figures(tmp_path, rows):
    run(tmp_path, rows=rows, status="interrupted", reason="Ctrl-C")
    text = " ".join(read(report.write(tmp_path)).text)
    assert "This run was not completed (interrupted): Ctrl-C" in text
    assert f"No figures: {rows} sample" in text
    assert "\N{EN DASH} undecided" in text
    assert not list((tmp_path / "figures").iterdir())


def test_a_run_without_a_samples_file_has_a_page(tmp_path):
    run(tmp_path, status="failed", reason="controller: died")
    (tmp_path / "samples.csv").unlink()
    assert "controller: died" in " ".join(read(report.write(tmp_path)).text)


def test_an_interrupted_run_shows_what_is_there(tmp_path):
    run(tmp_path, rows=400, status="interrupted")
    page = read(report.write(tmp_path))
    assert (tmp_path / "figures" / "trajectory_a.svg").exists()
    assert not (tmp_path / "figures" / "renderings_a.svg").exists()
    text = " ".join(page.text)
    assert "it is not compared with other variants" in text
    assert "penalties alone (PB)" not in text


def test_a_sweep_has_one_page_over_its_runs(tmp_path):
    sweep(tmp_path, "device.impulse_rendering", ["full", "saturated"])
    page = read(report.write(tmp_path))
    links = [reference for reference in page.references if not reference.startswith("#")]
    assert set(links) == {f"device.impulse_rendering%3D{value}/report.html" for value in ("full", "saturated")}
    text = " ".join(page.text)
    assert "2 runs" in text
    assert "sweep of device.impulse_rendering" in text
    assert "ideal: rigid walls" in text
    first = (tmp_path / "report.html").read_bytes()
    report.write(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == first


def test_a_sweep_of_the_scene_has_no_common_ideal(tmp_path):
    sweep(tmp_path, "scene.gap", ["[0.03, 0.06]", "[0.02, 0.05]"])
    assert "ideal: rigid walls" not in " ".join(read(report.write(tmp_path)).text)


def test_any_trial_has_figures(tmp_path):
    run(tmp_path, "analysis=trial")
    report.write(tmp_path)
    assert {file.stem for file in (tmp_path / "figures").iterdir()} == {
        "trajectory_hand_xy",
        "trajectory_tool_xy",
        "wrench_fx",
        "wrench_fy",
        "wrench_tz",
        "kinetic_energy",
    }


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "summary.json").unlink(), "is this a trial's directory?"),
        (lambda path: (path / "summary.json").write_text("{"), "summary.json: not JSON"),
        (lambda path: (path / "summary.json").write_text("[]"), "summary.json: must be a mapping"),
        (lambda path: (path / "experiment.yaml").unlink(), "experiment.yaml: cannot be read"),
        (lambda path: (path / "samples.csv").write_text("tick,time\n0,x\n"), "not the samples of a trial"),
        (lambda path: (path / "summary.json").write_text('{"sweep": {"runs": []}}'), "the sweep has no runs"),
    ],
)
def test_what_is_no_trial_is_refused(tmp_path, damage, message):
    run(tmp_path, "duration=0.1")
    damage(tmp_path)
    with pytest.raises(ParameterError, match=re.escape(message)):
        report.write(tmp_path)


def test_a_spike_of_one_sample_stays_in_the_figure():
    """Paths are simplified, but not their peaks."""
    values = np.sin(np.linspace(0.0, 20.0, 20_000))
    values[12_345] = 100.0
    line = figures.Line(np.arange(20_000.0), values, "spike", figures.Style("#123456"), steps=True)
    svg = figures.draw("spike", "A spike", [line], "x", "y", y_range=(-2.0, 100.0)).svg
    path = re.search(r'<path d="([^"]*)"[^>]*stroke: #123456', svg)[1]
    heights = [float(point.split()[2]) for point in re.findall(r"[ML] [\d.]+ [\d.]+", path)]
    frame = re.search(r'axes_1">\s*<g id="[^"]*">\s*<path d="M \S+ (\S+) \s*L \S+ \S+ \s*L \S+ (\S+)', svg)
    assert min(heights) == pytest.approx(float(frame[2]), abs=0.2)
    assert len(svg) < 200_000


def test_styles_of_a_sweep_differ():
    styles = [figures.style_of(i) for i in range(42)]
    assert len({(style.colour, style.dashes) for style in styles}) == 42


def test_labels_are_no_mathematics():
    line = figures.Line(np.arange(3.0), np.arange(3.0), r"$\frac{$", figures.Style())
    ElementTree.fromstring(figures.draw("label", "<&>", [line], "x", "y").svg)


def test_importing_the_report_does_not_import_matplotlib():
    code = "import sys, haptic_bench.report; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
