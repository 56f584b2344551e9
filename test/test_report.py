"""The report's page: well-formed, self-contained, safe, the same each time, whatever the run came to."""

import functools
import html
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest
from conftest import answer
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.analysis import figures as trial_figures
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.figures import Curve, port_figure
from haptic_bench.recording.samples import Samples
from haptic_bench.report import pages
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.parameters import ParameterError
from haptic_view import figures
from haptic_view.figures import Figure, Style

EMPTY = '{"experiment": "a", "mode": "offline", "status": "done", "sweep": {"runs": []}}'
VOID = {"meta", "br", "wbr", "hr", "img", "input", "link"}


@functools.cache
def simulated(name, *settings):
    """A trial and its samples."""
    (trial,) = experiment.load(name, ["duration=0.9", *settings])
    return trial, run_unrecorded(trial)


def run(directory, *settings, rows=None, name="corner_peg", **summary):
    """Leave in `directory` what a run leaves there; its trial and analysis."""
    trial, samples = simulated(name, *settings)
    directory.mkdir(parents=True, exist_ok=True)
    experiment.write_resolved(trial, directory)
    samples = Samples({name: samples[name][:rows] for name in samples.names})
    samples.write_csv(directory / "samples.csv")
    found = analysis_of(trial.experiment).analyse(trial, samples, compare=summary.get("status", "done") == "done")
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
    document = {"experiment": "corner_peg", "mode": "offline", "status": "done", "sweep": {"keys": [key], "runs": runs}}
    (directory / "summary.json").write_text(json.dumps(document))


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
    return directory, pages.write(directory, found), found


@pytest.mark.drawn
def test_the_page_is_well_formed_and_self_contained(done):
    directory, path, _ = done
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
    classes = {name for names in re.findall(r'class="([^"]*)"', text) for name in names.split()}
    assert not [name for name in classes if f".{name}" not in text], "each class has a rule"
    assert text.count('role="img"') == len(list((directory / "figures").glob("*.svg"))) == text.count("<desc>")


@pytest.mark.drawn
def test_the_page_says_what_was_run_and_found(done):
    text = " ".join(read(done[1]).text)
    for expected in (
        "A peg pushed into a corner",
        "impulse-augmented contact, impulses in full",
        "synchronous environment",
        "Servo rate",
        "512 Hz",
        "Claims and measurements",
        "✓ holds",
        "max_penetration_x",
        "0.61237",
        "√(2 m gap / F)",
        "contact.stiffness",
        "figure 4.18",
        "Constantinescu",
        "lost to impacts",
        "rigid contact, coupled (CBuc)",
        "a machine",
    ):
        assert expected in text, expected
    verdicts = [claim.holds for claim in done[2].claims]
    for verdict, shown in ((True, "✓ holds"), (False, "✗ does not hold"), (None, "\N{EN DASH} undecided")):
        assert text.count(shown) == verdicts.count(verdict)


@pytest.mark.drawn
def test_figures_are_small_svg_files_without_dates(done):
    files = sorted((done[0] / "figures").glob("*.svg"))
    names = {file.name for file in files}
    assert {"trajectory_a.svg", "force_x.svg", "kinetic_energy_a.svg", "renderings_b.svg"} <= names
    assert "torque.svg" not in names, "nothing turns the peg: that panel would show rounding errors alone"
    for file in files:
        root = ElementTree.parse(file).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert file.stat().st_size < 200_000
        assert "date" not in file.read_text().lower()


@pytest.mark.drawn
def test_rewriting_gives_the_same_bytes(done):
    directory, path, _ = done
    (directory / "figures" / "stale.svg").write_text("<svg/>")
    before = {file.name: file.read_bytes() for file in (path, *(directory / "figures").glob("*.svg"))}
    pages.write(directory)  # without the analysis: it is made again
    after = {file.name: file.read_bytes() for file in (path, *(directory / "figures").glob("*.svg"))}
    assert before.pop("stale.svg") == b"<svg/>"
    assert after == before


@pytest.mark.drawn
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
    text = resolved.read_text().replace("title: A peg pushed into a corner", f"title: {title}")
    resolved.write_text(re.sub(r"^source: .*$", f"source: {title}", text, flags=re.MULTILINE))
    page = read(pages.write(tmp_path))
    assert not {"script", "b"} & set(page.tags)
    assert " ".join(page.text).count(evil) >= 10
    assert "✗ does not hold" in page.text


@pytest.mark.parametrize("rows", [0, 1])
def test_a_run_of_no_or_one_sample_has_a_page_without_figures(tmp_path, rows):
    run(tmp_path, rows=rows, status="interrupted", reason="Ctrl-C")
    text = " ".join(read(pages.write(tmp_path)).text)
    assert "This run was not completed (interrupted): Ctrl-C" in text
    assert f"No figures: {rows} sample" in text
    assert "\N{EN DASH} undecided" in text
    assert not list((tmp_path / "figures").iterdir())


def test_a_run_without_a_samples_file_has_a_page(tmp_path):
    run(tmp_path, status="failed", reason="controller: died")
    (tmp_path / "samples.csv").unlink()
    assert "controller: died" in " ".join(read(pages.write(tmp_path)).text)


def test_an_interrupted_run_shows_what_is_there(tmp_path):
    run(tmp_path, rows=400, status="interrupted")
    page = read(pages.write(tmp_path))
    assert (tmp_path / "figures" / "trajectory_a.svg").exists()
    assert not (tmp_path / "figures" / "renderings_a.svg").exists()
    text = " ".join(page.text)
    assert "it is not compared with other variants" in text
    assert "penalties alone (PB)" not in text


@pytest.mark.exhaustive
@pytest.mark.drawn
def test_a_sweep_has_one_page_over_its_runs(tmp_path):
    sweep(tmp_path, "device.impulse_rendering", ["full", "saturated"])
    page = read(pages.write(tmp_path))
    links = [reference for reference in page.references if not reference.startswith("#")]
    assert set(links) == {f"device.impulse_rendering%3D{value}/report.html" for value in ("full", "saturated")}
    text = " ".join(page.text)
    assert "2 runs" in text
    assert re.search(r"Sweep of\s+device.impulse_rendering", text)
    assert "ideal: rigid walls" in text
    first = (tmp_path / "report.html").read_bytes()
    pages.write(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == first


@pytest.mark.drawn
def test_a_sweep_of_the_scene_has_no_common_ideal(tmp_path):
    sweep(tmp_path, "scene.gap", ["[0.03, 0.06]", "[0.02, 0.05]"])
    assert "ideal: rigid walls" not in " ".join(read(pages.write(tmp_path)).text)


def test_any_trial_has_figures(tmp_path):
    run(tmp_path, "analysis=trial")
    pages.write(tmp_path)
    # nothing turns the peg; its impacts give the hand some energy
    assert {file.stem for file in (tmp_path / "figures").iterdir()} == {
        "scene_start",
        "scene_first_contact",
        "scene_end",
        "scene_motion",
        "trajectory_hand_xy",
        "trajectory_tool_xy",
        "wrench_fx",
        "wrench_fy",
        "kinetic_energy",
        "energy_stack",
        "energy_numerical",
        "port_energy",
    }


def test_a_world_of_ones_own_has_units_notes_and_no_dangling_dots(tmp_path):
    ball = {"joint": "free", "mass": 0.1, "position": [0, 0, 0.021], "shapes": [{"type": "sphere", "radius": 0.02}]}
    document = {
        "duration": 0.1,
        "rate": 1000.0,
        "analysis": "trial",
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "none"},
        "environment": {"publish": 1000.0},
        "scene": {
            "type": "world",
            "bodies": {"floor": {"joint": "fixed", "shapes": [{"type": "plane"}]}, "ball": ball},
            "tool": "ball",
        },
    }
    (tmp_path / "drop.yaml").write_text(json.dumps(document))
    metrics = {"max_depth[ball & floor]": 1.5e-3}
    note = "files.arm.path = arm.urdf: <mimic> is not simulated"
    for folder in ("a=1", "a=2"):
        name = str(tmp_path / "drop.yaml")
        run(tmp_path / folder, name=name, notes=[note], timing={"start_up": 1.23456}, metrics=metrics)
    text = pages.write(tmp_path / "a=1").read_text()
    assert '<p class="soft"><code>drop</code></p>' in text and "<p></p>" not in text
    for expected in (
        '<td class="number">1.23</td><td>s</td>',
        f"<li>{html.escape(note)}</li>",
        "Largest overlap of ball &amp; floor",
    ):
        assert expected in text, expected
    runs = [{"label": label, "directory": label} for label in ("a=1", "a=2")]
    summary = {"experiment": "drop", "mode": "offline", "status": "done", "sweep": {"keys": ["a"], "runs": runs}}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    row = next(line for line in pages.write(tmp_path).read_text().splitlines() if "ball &amp; floor" in line)
    assert row.endswith("<td>mm</td></tr>"), row


@pytest.mark.parametrize(
    ("name", "settings", "panels"),
    [
        ("incline", ["scene.angle=20"], {"trajectory_tool_xz", "wrench_fx", "wrench_fz", "wrench_ty"}),
        ("stack", ["scene.boxes=3"], {"wrench_fz"}),
        ("bounce_settle", [], {"trajectory_tool_z", "wrench_fz"}),  # of a fall the height, over time
    ],
)
def test_a_trial_without_a_device_has_a_page(tmp_path, name, settings, panels):
    run(tmp_path, "analysis=trial", "duration=0.3", *settings, name=name)
    path = pages.write(tmp_path)
    text = " ".join(read(path).text)
    assert "no device: the operator's wrench acts on the tool" in text
    at_rest = name == "stack"  # panels of what does not move are left out
    assert ("Position of the tool." in text) == (not at_rest)
    assert "Wrench of the environment on the tool" in text
    files = {file.stem for file in (tmp_path / "figures").iterdir()}
    assert panels | (set() if at_rest else {"kinetic_energy", "energy_stack", "energy_numerical"}) <= files
    assert "trajectory_tool_xy" not in files  # it moves in a plane of x and z
    assert ("Wookho" in text or "W. Son" in text) == (name == "bounce_settle")


def test_a_page_cites_the_source_of_its_experiment_and_no_other(tmp_path):
    run(tmp_path, "analysis=trial", "duration=0.01", rows=1)
    resolved = tmp_path / "experiment.yaml"
    text = resolved.read_text()
    for name in pages.SOURCES:
        resolved.write_text(re.sub(r"^source: .*$", f"source: {name} II, figure 1", text, flags=re.MULTILINE))
        footer = pages.write(tmp_path).read_text(encoding="utf-8").partition("<footer>")[2]
        assert [other for other in pages.SOURCES if f"<p>{other}: " in footer] == [name]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["environment.method=frictional_impulses"], "frictional-impulses contact, impulses in full"),
        (["environment.method=constraint"], "constraint contact"),
        (
            ["environment.method=constraint", "controller.type=unilateral_coupling"],
            "constraint contact through the unilateral coupling",
        ),
    ],
)
def test_the_page_names_the_method(tmp_path, settings, text):
    run(tmp_path, "analysis=trial", "duration=0.01", *settings, rows=1)
    assert text in " ".join(read(pages.write(tmp_path)).text)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / "summary.json").unlink(), "is this a trial's directory?"),
        (lambda path: (path / "summary.json").write_text("{"), "summary.json: "),
        (lambda path: (path / "summary.json").write_text("[]"), "summary.json: must be a mapping"),
        (lambda path: (path / "experiment.yaml").unlink(), "experiment.yaml: cannot be read"),
        (lambda path: (path / "samples.csv").write_text("tick,time\n0,x\n"), "not the samples of a trial"),
        (
            lambda path: (path / "samples.csv").write_text(
                (path / "samples.csv").read_text().replace("hand_wz", "h_", 1)
            ),
            "samples.csv: not the samples of a trial: samples have no column hand_wz",
        ),
        (lambda path: (path / "summary.json").write_text(EMPTY), "the sweep has no runs"),
    ],
)
def test_what_is_no_trial_is_refused(tmp_path, damage, message):
    run(tmp_path, "duration=0.1")
    damage(tmp_path)
    with pytest.raises(ParameterError, match=re.escape(message)):
        pages.write(tmp_path)


@pytest.mark.drawn
def test_a_spike_of_one_sample_stays_in_the_figure():
    """Paths are simplified, but not their peaks."""
    values = np.sin(np.linspace(0.0, 20.0, 20_000))
    values[12_345] = 100.0
    line = figures.Line(np.arange(20_000.0), values, "spike", figures.Style("#123456"), steps=True)
    svg = figures.draw("spike", "A spike", [line], "x", figures.Axis("y", (-2.0, 100.0))).svg
    path = re.search(r'<path d="([^"]*)"[^>]*stroke: #123456', svg)[1]
    heights = [float(point.split()[2]) for point in re.findall(r"[ML] [\d.]+ [\d.]+", path)]
    frame = re.search(r'axes_1">\s*<g id="[^"]*">\s*<path d="M \S+ (\S+) \s*L \S+ \S+ \s*L \S+ (\S+)', svg)
    assert min(heights) == pytest.approx(float(frame[2]), abs=0.2)
    assert len(svg) < 200_000


def energies(**terms):
    """Samples of five ticks at 1 kHz with these energies [J], the others zero."""
    table = {"tick": np.arange(5), "time": np.arange(5) / 1e3}
    return Samples(
        table | {f"energy_{name}": np.zeros(5) for name in TERMS} | {f"energy_{k}": v for k, v in terms.items()}
    )


def curve(samples, label="a run"):
    return trial_figures.Curve(label, None, samples, figures.Style())


# Falls from 3 J of potential with a push of 2 J; loses 4 J in an impact, which adds 0.5 J by discretisation.
FALL = {
    "kinetic": np.array([0.0, 2.0, 4.0, 0.5, 0.5]),
    "potential": np.array([-7.0, -8.0, -9.0, -9.0, -9.0]),
    "elastic": np.array([0.0, 0.0, 0.0, 0.0, 0.0]),
    "injected": np.array([0.0, 1.0, 2.0, 2.0, 2.0]),
    "impact": np.array([0.0, 0.0, 0.0, 4.0, 4.0]),
    "numerical": np.array([0.0, 0.0, 0.0, 0.5, 0.5]),
}


def heights(svg, colour):
    """What a curve of a panel without x range shows, in the units of its axis."""
    frame = re.search(r'axes_1">\s*<g id="[^"]*">\s*<path d="M \S+ (\S+) \s*L \S+ \S+ \s*L \S+ (\S+)', svg)
    path = re.search(rf'<path d="([^"]*)" clip-path="[^"]*" style="fill: none; [^"]*stroke: {colour}', svg)[1]
    points = [float(y) for y in re.findall(r"[ML] \S+ (\S+)", path)]
    return points, float(frame[1]), float(frame[2])


@pytest.mark.drawn
def test_energies_are_stacked_up_to_what_was_supplied():
    figure = trial_figures.energy_figure([curve(energies(**FALL))])
    assert figure.table == [
        ["At the end [J]", "supplied", "numerical", "kinetic", "potential", "lost to impacts"],
        ["a run", "4.000", "0.500", "0.500", "0", "4.000"],
    ]
    assert [panel.name for panel in figure.panels] == ["energy_stack", "energy_numerical"]
    stack = figure.panels[0].svg
    assert all(f">{text}<" in stack for text in ("supplied", "kinetic", "potential", "lost to impacts"))
    assert not any(f">{text}<" in stack for text in ("elastic", "lost to damping", "lost to friction"))
    supplied, bottom, top = heights(stack, figures.BLACK)
    total, _, _ = heights(stack, "#8a8f98")
    unit = (supplied[0] - supplied[-1]) / 2.0  # [pt/J], as 2 J were supplied
    assert total[0] == pytest.approx(supplied[0], abs=0.02)  # 2 J in the beginning: the potential above its lowest
    assert (supplied[-1] - total[-1]) / unit == pytest.approx(0.5, abs=0.01)  # the numerical part
    kinetic, _, _ = heights(stack, figures.BLUE)
    assert (kinetic[0] - min(kinetic)) / unit == pytest.approx(4.0, abs=0.01)
    assert top < min(total) < max(kinetic) <= bottom


def test_the_figure_of_energies_says_how_well_they_balance():
    caption = trial_figures.energy_figure([curve(energies(**FALL))]).caption
    gap = float(re.search(r"balance to (\S+) J", caption)[1])
    assert gap < 1e-14
    wrong = FALL | {"impact": np.array([0.0, 0.0, 0.0, 3.9, 3.9])}
    assert "balance to 0.1 J" in trial_figures.energy_figure([curve(energies(**wrong))]).caption


def test_a_balance_that_starts_late_is_still_one():
    """The first ticks of a recording may be missing: flows are since the trial's start."""
    late = {name: values[2:] for name, values in FALL.items()}
    table = {"tick": np.arange(3), "time": np.arange(3) / 1e3} | {f"energy_{name}": np.zeros(3) for name in TERMS}
    samples = Samples(table | {f"energy_{name}": values for name, values in late.items()})
    figure = trial_figures.energy_figure([curve(samples)])
    assert float(re.search(r"balance to (\S+) J", figure.caption)[1]) < 1e-14
    assert figure.table[1][1] == "4.000"


def test_energies_of_several_runs_are_lines_in_one_unit():
    small = {name: 1e-2 * values for name, values in FALL.items()}
    figure = trial_figures.energy_figure([curve(energies(**FALL), "large"), curve(energies(**small), "small")])
    assert [panel.name for panel in figure.panels] == [
        "energy_supplied",
        "energy_stored",
        "energy_spent",
        "energy_numerical",
    ]
    assert [row[:3] for row in figure.table[1:]] == [["large", "4.000", "0.500"], ["small", "0.040", "0.005"]]
    assert figure.table[0][0] == "At the end [J]"
    beside = trial_figures.energy_figure([curve(energies(**small), "small")], [curve(energies(**small), "beside")])
    assert len(beside.panels) == 2
    assert beside.table[0][0] == "At the end [mJ]"
    assert [row[0] for row in beside.table[1:]] == ["small", "beside"]


def test_the_energy_of_the_port_is_shown_where_it_is_negative_or_kept() -> None:
    (trial,) = experiment.load("corner_peg")

    def figure(energy: float, kept: float) -> Figure | None:
        columns = {"port_energy_translation": energy, "port_dissipated_rotation": kept}
        zero = {f"port_{name}_{part}": 0.0 for name in ("energy", "dissipated") for part in ("translation", "rotation")}
        table = {name: np.linspace(0.0, value, 3) for name, value in (zero | columns).items()}
        samples = Samples({"time": np.arange(3.0)} | table)
        return port_figure([Curve("run", trial, samples, Style())])

    assert figure(1.0, 0.0) is None
    active, kept = figure(-2e-3, 0.0), figure(1.0, 3e-3)
    assert active is not None and [panel.name for panel in active.panels] == ["port_energy"]
    assert kept is not None and "run: 0.003 J" in kept.caption


def test_samples_without_energies_have_no_figure_of_them():
    bare = Samples({"tick": np.arange(5), "time": np.arange(5) / 1e3})
    assert trial_figures.energy_figure([curve(bare)]) is None
    assert trial_figures.energy_figure([]) is None
    figure = trial_figures.energy_figure([curve(energies(**FALL))], [curve(bare, "older")])
    assert [row[0] for row in figure.table[1:]] == ["a run"]


@pytest.mark.drawn
def test_the_head_names_operator_and_device(done):
    text = " ".join(read(done[1]).text)
    assert re.search(r"Operator\s+constant\s+Device\s+inertial", text)


def test_energies_of_a_trial_that_diverged_are_shown_as_powers_of_ten():
    assert [trial_figures._signed(value) for value in (4.3497559e41, -1234.5678, 1e-4)] == [
        "4.350·10⁴¹",
        "\N{MINUS SIGN}1234.568",
        "0",
    ]


def test_of_a_world_without_any_energy_there_is_no_figure():
    assert trial_figures.energy_figure([curve(energies())]) is None


@pytest.mark.drawn
def test_a_day_of_energies_stays_small():
    ticks = 200_000
    rng = np.random.default_rng(20260)
    table = {"tick": np.arange(ticks), "time": np.arange(ticks) / 1e3}
    table |= {f"energy_{name}": rng.random(ticks) for name in TERMS}
    figure = trial_figures.energy_figure([curve(Samples(table))])
    assert max(len(panel.svg) for panel in figure.panels) < 210_000


@pytest.mark.drawn
def test_logarithmic_axes_have_plain_numbers():
    line = figures.Line(np.array([1.0, 1e5]), np.array([3.0, 40.0]), "line", figures.Style())
    marks = figures.Line(np.array([10.0, 100.0, 1e3]), np.full(3, 50.0), "marks", figures.Style("#abcdef"))
    svg = figures.draw(
        "log", "Logarithms", [line], figures.Axis("x", log=True), figures.Axis("y", log=True), marks=marks
    ).svg
    shown = set(re.findall(r">([^<>]+)</text>", svg))
    assert {"1", "10", "100", "1000", "10000", "100000"} <= shown  # x: powers of ten
    assert {"5", "10", "20", "50"} <= shown  # y: less than three of them
    assert "marks" in shown
    assert svg.count("<use") - svg.count("tick") >= 3
    assert (
        "marks"
        not in figures.draw(
            "log", "L", [line], "x", "y", marks=figures.Line(*np.zeros((2, 0)), "marks", figures.Style())
        ).svg
    )


@pytest.mark.drawn
def test_counts_have_whole_numbers():
    line = figures.Line(np.arange(3.0), np.array([0.0, 1.0, 0.0]), "line", figures.Style())
    svg = figures.draw("count", "Counts", [line], "x", figures.Axis("y", counts=True)).svg
    labels = re.findall(r">([\d.]+)</text>", svg[svg.index("matplotlib.axis_2") :])
    assert labels == ["0", "1", "2", "3"]


def test_styles_of_a_sweep_differ():
    styles = [figures.style_of(i) for i in range(42)]
    assert len({(style.colour, style.dashes) for style in styles}) == 42


@pytest.mark.drawn
def test_labels_are_no_mathematics():
    line = figures.Line(np.arange(3.0), np.arange(3.0), r"$\frac{$", figures.Style())
    ElementTree.fromstring(figures.draw("label", "<&>", [line], "x", "y").svg)


def test_importing_the_report_does_not_import_matplotlib():
    code = "import sys, haptic_bench.report.pages; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_a_panel_that_shows_nothing_is_left_out():
    time = np.arange(100) / 1e3

    def panel(values, **how):
        line = figures.Line(time, np.asarray(values, float), "a", figures.Style())
        return figures.draw("a", "A", [line], "x", figures.Axis("y", **how))

    assert panel(np.zeros(100)).empty and panel(np.full(100, np.nan)).empty
    assert panel(1e-12 * np.sin(time), least=0.2).empty
    assert not panel(np.full(100, 5.0)).empty and not panel(1e-12 * np.sin(time)).empty
    kept = figures.Figure("b", "", [panel(np.zeros(100)), panel(time)])
    (figure,) = pages.shown_of([figures.Figure("a", "", [panel(np.zeros(100))]), kept])
    assert [one.empty for one in figure.panels] == [False]


@pytest.mark.drawn
def test_a_legend_stays_within_its_panel():
    lines = [figures.Line(np.arange(9.0), np.arange(9.0), f"{i}" * 48, figures.Style()) for i in range(9)]
    svg = figures.draw("a", "A", lines, "x", "y").svg
    height, width = (float(re.search(rf'{name}="([\d.]+)pt"', svg)[1]) for name in ("height", "width"))
    assert (width, height) == (480.0, 330.0 + 4 * 14.0)
    assert all(f">{f'{i}' * 48}<" in svg for i in range(9))


@pytest.mark.drawn
@pytest.mark.parametrize(("largest", "shown"), [(2e9, "2·10⁹"), (2e-5, "2·10⁻⁵"), (2000.0, "2000"), (2e-3, "0.00200")])
def test_numbers_of_an_axis_stand_alone(largest: float, shown: str) -> None:
    line = figures.Line(np.array([0.0, 1.0]), np.array([0.0, largest]), "a", figures.Style())
    svg = figures.draw("a", "A", [line], "x", figures.Axis("y")).svg
    found = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert shown in found
    assert not any(re.match(r"\d+e", text) for text in found)


def test_the_area_of_a_trial_that_diverged_ends_where_its_numbers_do() -> None:
    drawn = []

    class Axes:
        def fill(self, x, y, **how):
            drawn.extend([x.tolist(), y.tolist()])

        def plot(self, *curve, **how):
            pass

    line = figures.Line(np.arange(4.0), np.array([1.0, 2.0, np.nan, np.inf]), "a", figures.Style(), area=True)
    figures._fill(Axes(), line.x, line.y, line, 1.0)
    assert drawn == [[0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 2.0, 0.0]]


@pytest.mark.drawn
def test_labels_have_room_within_a_panel() -> None:
    line = figures.Line(np.array([0.0, 80000.0]), np.array([-1.25e-4, 1.25e-4]), "a", figures.Style())
    narrow, usual = (
        figures.draw("a", "A", [one], figures.Axis("x", span=(0.0, float(one.x[-1]))), figures.Axis("y")).svg
        for one in (line, figures.Line(np.array([0.0, 1.0]), np.array([0.0, 1.0]), "a", figures.Style()))
    )
    left = [float(re.findall(r"<path d=\"M ([0-9.]+)", svg.split('id="a.patch_2"')[1])[0]) for svg in (narrow, usual)]
    assert left[0] > left[1]


def test_many_runs_have_a_row_each_and_some_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "DRAWN", 3)
    monkeypatch.setattr(pages, "COLUMNS", 3)
    sweep(tmp_path, "contact.stiffness", [1000, 1500, 2000, 3000])
    text = pages.write(tmp_path).read_text(encoding="utf-8")
    assert "The figures show 3 of the 4 runs, evenly chosen in their order." in text
    assert '<th scope="col" class="">Run</th>' in text and "In 4 runs" in text
    page = " ".join(Page(text).text)
    assert all(f"{value}" in page for value in (1000, 1500, 2000, 3000))


@pytest.mark.drawn
@pytest.mark.parametrize("largest", [1e29, 1e31, 1e200, 1.7e308, np.inf, np.nan])
def test_a_line_of_a_trial_that_diverged_is_drawn(largest):
    time = np.linspace(0.0, 1.0, 100)
    line = figures.Line(time, np.where(time < 0.5, time, largest * (time - 0.7)), "run", figures.Style())
    panel = figures.draw("diverged", "Diverged", [line], "time [s]", "force [N]")
    assert not panel.empty and "</svg>" in panel.svg
    assert not figures.draw("plan", "Plan", [line], "x [m]", "y [m]", equal=True).empty


@pytest.mark.drawn
@pytest.mark.parametrize(
    "axis",
    [
        figures.Axis("y", least=1e-3),
        figures.Axis("y", span=(-1.0, 1.0)),
        figures.Axis("y", linear=1e-6),
        figures.Axis("y", log=True),
        figures.Axis("y", counts=True),
    ],
    ids=["least", "span", "linear", "log", "counts"],
)
@pytest.mark.parametrize("values", [[0.0] * 3, [1e-300, 0.0, 1e-300], [-1e29, 1e29, 0.0], [5.0, 5.0, 5.0 + 1e-15]])
def test_any_finite_values_are_drawn_on_any_axis(axis, values):
    lines = [
        figures.Line([0.0, 1.0, 2.0], values, "held", figures.Style(), steps=True),
        figures.Line([0.0], values[:1], "one point", figures.Style()),
        figures.Line([], [], "nothing", figures.Style()),
    ]
    assert "</svg>" in figures.draw("any", "Any", lines, "time [s]", axis).svg


@pytest.mark.drawn
def test_ticks_of_an_axis_differ_and_rounding_errors_are_flat():
    time = np.linspace(0.0, 1.0, 50)

    def labels(values, label):
        line = figures.Line(time, values, "a", figures.Style())
        svg = figures.draw("a", "A", [line], "x", label).svg
        found = re.findall(r">([^<>]+)</text>", svg[svg.index("matplotlib.axis_2") :])
        return found[: found.index(label)]

    for values in (12345678.0 + time, 1e-17 * np.sin(9.0 * time), 3e7 + 1e-3 * time, np.full(50, 5.0)):
        found = labels(values, "force [N]")
        assert len(found) == len(set(found)) > 1, found
    assert max(float(text.replace("\u2212", "-")) for text in labels(1e-17 * time, "force [N]")) >= 0.004


def test_the_legend_says_which_curve_lies_on_another():
    time = np.linspace(0.0, 1.0, 50)
    lines = [
        figures.Line(time, factor * time, name, figures.Style())
        for name, factor in zip("abc", (1, 2, 1.001), strict=True)
    ]
    panel = figures.draw("a", "A", [*lines, figures.Line(time[::7], time[::7], "d", figures.Style())], "x", "y")
    shown = panel.save.args[0][2]
    assert [line.label for line in shown] == ["a", "b", "c (as a)", "d (as a)"]


@pytest.mark.drawn
def test_figures_are_written_as_pdf_and_png_too(tmp_path):
    line = figures.Line(np.arange(3.0), np.arange(3.0), "line", figures.Style())
    scene = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 48 33"><rect width="48" height="33" fill="#ffffff"/>'
    scene += '<svg x="0" y="2" width="48" height="20"><path class="moving" d="M0 0L9 9Z"/>'
    scene += '<path fill="#0072b2" d="M4 4L20 4L20 20Z"/></svg><g transform="translate(30.0 0)">'
    scene += (
        '<circle cx="5" cy="9" r="3" fill="#d55e00"/></g><text x="2" y="31" font-size="6" fill="#222222">a</text></svg>'
    )
    panels = [figures.draw("a", "A", [line], "x", "y"), figures.Panel("scene_end", "end", lambda: scene)]
    for _ in range(2):
        pages._write_figures(tmp_path, [Figure("f", "", panels)], ["pdf", "png"])
        files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
        assert set(files) == {f"{name}.{kind}" for name in ("a", "scene_end") for kind in ("svg", "pdf", "png")}
        for name, data in files.items():
            assert data.startswith({"svg": b"<", "pdf": b"%PDF-", "png": b"\x89PNG"}[name.rpartition(".")[2]]), name
            assert b"CreationDate" not in data and b"/Type3" not in data
    image = matplotlib.image.imread(tmp_path / "scene_end.png")  # 300 dots an inch
    assert image.shape[:2] == (137, 200)
    colour = lambda x, y: [round(255 * part) for part in image[round(y * 300 / 72), round(x * 300 / 72), :3]]  # noqa: E731
    assert colour(17, 9) == [0, 114, 178] and colour(35, 9) == [213, 94, 0] and colour(6, 15) == [255, 255, 255]
    pages._write_figures(tmp_path, [Figure("f", "", panels[:1])])
    assert [file.name for file in tmp_path.iterdir()] == ["a.svg"]  # none of an older report remains


def test_an_unknown_kind_of_figures_is_named(tmp_path):
    (tmp_path / "summary.json").write_text(EMPTY)
    done = answer("report", str(tmp_path), "--figures", "pdf,gif")
    assert done.status == 2
    assert "--figures pdf,gif: must be svg or pdf or png, or several with commas between them, as pdf,png" in done.err
