"""Experiment files, settings and sweeps: what is accepted, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT, sampled
from offline_runs import run_unrecorded

from haptic_bench import experiment
from haptic_bench.experiment import catalogue, load, read_document, read_resolved, write_resolved
from haptic_sim.parameters import ParameterError


def problem(name: str = "corner_peg", *settings: str, duration: object = None) -> str:
    """What is said of a bad input."""
    with pytest.raises(ParameterError) as caught:
        experiment.load(name, settings, duration)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("contact.stiffness=-5", "contact.stiffness = -5 N/m: must be > 0 N/m"),
        ("contact.stiffness=.nan", "contact.stiffness = nan N/m: must be finite"),
        ("contact.stiffness=soft", "contact.stiffness = soft: must be a number"),
        ("contact.stiffness=true", "contact.stiffness = true: must not be true or false"),
        ("contact.restitution=1.5", "contact.restitution = 1.5: must be <= 1"),
        ("rate=0", "rate = 0 Hz: must be > 0 Hz"),
        ("rate=.inf", "rate = inf Hz: must be finite"),
        ("duration=-1", "duration = -1 s: must be > 0 s"),
        ("scene.gap=[0.03, -0.01]", "scene.gap[1] = -0.01 m: the wall would be inside the peg; must be > 0"),
        ("tool.size=[0.04, 0]", "tool.size[1] = 0: must be > 0"),
        (
            "environment.method=magic",
            "environment.method = magic: must be one of 'penalty', 'impulse_augmented', 'frictional_impulses', "
            "'constraint', 'hybrid'",
        ),
        ("operator.wrench=[1, 2, .nan, 0, 0, 0]", "operator.wrench[2] = nan N, N m: must be finite"),
        (
            "operator.type=robot",
            "operator.type = robot: must be one of 'constant', 'sine', 'file', 'arm', 'tangential', 'pointer'",
        ),
        (
            "operator.type=file",
            "operator.path: missing (CSV file of the operator's wrench, with the header time,fx,fy,fz,tx,ty,tz)",
        ),
        (
            "contact.stifness=1",
            "contact.stifness: unknown key; did you mean stiffness? (known: stiffness, damping, per, penalty, "
            "restitution, multiple_impacts, self_collision, friction, margin, bounce, facets, solver, lemke_contacts, "
            "tolerance, cluster)",
        ),
        (
            "environment.rate=60",
            "environment.rate = 60: an environment without a local model runs at the servo rate; leave it out, or set "
            "local_model.type=full",
        ),
        ("contact.stiffness.x=2", "--set contact.stiffness.x: stiffness has no keys of its own"),
        (
            "contact.stiffness",
            "--set contact.stiffness: must be KEY=VALUE, as in --set contact.stiffness=2000, or "
            "scene.bodies.box.shapes[0].size=[0.1,0.1,0.2]",
        ),
        (
            "contact.stiffness[0]=2",
            "--set contact.stiffness[0]: stiffness is not a list in the experiment; set it as a whole",
        ),
        ("contact.stiffness=[1", "--set contact.stiffness=[1: invalid YAML: did not find expected ',' or ']'"),
        ("name=../evil", "name = ../evil: must match ^[A-Za-z][A-Za-z0-9_.-]*$"),
    ],
)
def test_bad_settings_name_key_value_and_rule(setting: str, said: str) -> None:
    assert problem("corner_peg", setting) == said


@pytest.mark.parametrize(
    ("name", "setting", "said"),
    [
        (
            "incline",
            "tool.type=peg",
            "tool.type = peg: the scene slope has a tool of its own; leave tool out, or set tool.type=none",
        ),
        (
            "incline",
            "controller.type=four_channel",
            "controller.type = four_channel: without a device there is none; set controller.type=none",
        ),
        (
            "incline",
            "scene.type=stack",
            "analysis = incline: needs the scene slope, not scene.type = stack; set analysis=trial",
        ),
        ("incline", "contact.friction.static=-0.1", "contact.friction.static = -0.1: must be >= 0"),
        (
            "incline",
            "contact.friction.kinetic=0.4",
            "contact.friction.kinetic = 0.4: must be <= static = 0.25; lower it or raise static",
        ),
        ("incline", "scene.size=[0, 0.1, 0.05]", "scene.size[0] = 0: must be > 0"),
        ("incline", "scene.angle=95", "scene.angle = 95 deg: must be < 90 deg"),
        (
            "corner_peg",
            "controller.type=none",
            "controller.type = none: a device needs one; set controller.type=virtual_coupling, or leave it out",
        ),
        (
            "stack",
            "local_model.type=full",
            "local_model.type = full: without a device there is none; set local_model.type=none",
        ),
        (
            "two_hands",
            "environment.integrator=1",
            "environment.integrator = 1: is for one free rigid tool whose contacts are penalties, and hands is not "
            "empty; set environment.integrator=2",
        ),
        ("two_hands", "hands[0].name=Left/1", "hands[0].name = Left/1: must match ^[a-z][a-z0-9_]*$"),
        ("two_hands", "hands[0].name=" + "a" * 41, f"hands[0].name = {'a' * 41}: must have at most 40 characters"),
    ],
)
def test_parts_that_do_not_go_together_are_named(name: str, setting: str, said: str) -> None:
    assert problem(name, setting) == said


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        (
            {"a": {"joint": "free", "mass": 1.0}},
            "scene.bodies.a.inertia: missing: a body without shapes has none of its own",
        ),
        (
            {"a": {"joint": "free", "mass": 1.0, "inertia": [1.0, 1.0, 3.0]}},
            "scene.bodies.a.inertia = [1, 1, 3]: no body has this inertia",
        ),
        (
            {"a": {"joint": "free", "mass": 1.0, "shapes": [{"type": "mesh", "path": "nowhere.stl"}]}},
            "nowhere.stl",
        ),
        (
            {
                "a": {"joint": "free", "mass": 1.0, "shapes": [{"type": "sphere", "radius": 0.1}]},
                "b": {"joint": "fixed", "shapes": [{"type": "box", "size": [1, 1, 1]}]},
            },
            "overlap by",
        ),
    ],
)
def test_worlds_that_cannot_be_are_refused(tmp_path: Path, bodies: dict[str, Any], said: str) -> None:
    document = {
        "duration": 1.0,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "none"},
        "scene": {"type": "world", "bodies": bodies, "tool": "a"},
    }
    file = tmp_path / "own.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    with pytest.raises(ParameterError) as error:
        experiment.load(str(file))
    assert said in str(error.value)


def own_world(folder: Path) -> str:
    """File of a world with a box over a plane."""
    box = {"joint": "free", "mass": 0.2, "position": [0, 0, 0.1], "shapes": [{"type": "box", "size": [0.1, 0.2, 0.1]}]}
    bodies = {"floor": {"joint": "fixed", "shapes": [{"type": "plane"}]}, "box": box}
    document = {
        "duration": 0.01,
        "rate": 1000.0,
        "operator": {"type": "constant", "wrench": [0.0] * 6},
        "device": {"type": "none"},
        "scene": {"type": "world", "bodies": bodies, "tool": "box"},
    }
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("setting", "sizes", "masses"),
    [
        ("scene.bodies.box.shapes[0].size=[0.3,0.3,0.1]", [(0.3, 0.3, 0.1)], [0.2]),
        ("scene.bodies.box.shapes[0].size[1]=[0.1,0.3]", [(0.1, 0.1, 0.1), (0.1, 0.3, 0.1)], [0.2, 0.2]),
        ("scene.bodies.box.shapes[0].size=[[0.3,0.3,0.1],[0.1,0.1,0.1]]", [(0.3, 0.3, 0.1), (0.1,) * 3], [0.2] * 2),
        ("scene.bodies.box.shapes[0]={type: box, size: [1,1,0.1]}", [(1.0, 1.0, 0.1)], [0.2]),
        ("scene.bodies.box.mass=[0.1,0.3]", [(0.1, 0.2, 0.1)] * 2, [0.1, 0.3]),
    ],
)
def test_entries_of_lists_and_of_mappings_are_set_and_swept(
    tmp_path: Path, setting: str, sizes: list[tuple[float, ...]], masses: list[float]
) -> None:
    found: list[Any] = [one.experiment.scene for one in experiment.load(own_world(tmp_path), [setting])]
    assert [scene.bodies["box"].shapes[0].size for scene in found] == sizes
    assert [scene.bodies["box"].mass for scene in found] == masses


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("scene.bodies.box.shapes[1].size", "[1] is not in the list, which has [0] alone"),
        ("scene.bodies.box.shapes.size", "shapes is a list; say which, as in shapes[0]"),
        ("scene.bodies.box.mass[0]", "mass is not a list in the experiment; set it as a whole"),
        ("scene.bodies.box[0]", "box is not a list in the experiment; set it as a whole"),
    ],
)
def test_an_entry_that_is_not_there_is_named(tmp_path: Path, key: str, said: str) -> None:
    assert problem(own_world(tmp_path), f"{key}=1") == f"--set {key}: {said}"


def test_an_unknown_experiment_lists_the_known_ones() -> None:
    known = ", ".join(experiment.catalogue())
    assert problem("corner_pig") == f"experiment corner_pig: unknown; did you mean corner_peg? (known: {known})"


def test_too_many_ticks_are_refused() -> None:
    assert problem(duration=1e6) == "duration = 1e+06 s at rate = 512 Hz: must be at most 10000000 ticks"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1, 2\nb: 3", "line 2: not YAML"),
        ("rate: 512\nrate: 513", "line 2: not YAML"),
        ("- 1\n- 2", "must be a mapping of keys to values"),
        ("", "must be a mapping of keys to values"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    message = problem(str(path))
    assert message.startswith(str(path)) and said in message


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    text = experiment.find("corner_peg").read_text().replace("rate: 512", "")
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert problem(str(path)) == "rate: missing (Servo rate)"


def test_a_file_of_ones_own_runs_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "my-peg.yaml"
    path.write_text(experiment.find("corner_peg").read_text())
    (trial,) = experiment.load(str(path))
    assert (trial.experiment.name, trial.experiment.namespace) == ("my-peg", "my_peg")


@pytest.mark.parametrize(
    ("file", "name"), [("mein versuch ü", "mein_versuch_"), ("2 links", "experiment_2_links"), ("own-1.b", "own-1.b")]
)
def test_any_name_of_a_file_will_do(tmp_path: Path, file: str, name: str) -> None:
    path = tmp_path / f"{file}.yaml"
    path.write_text(experiment.find("corner_peg").read_text())
    (trial,) = experiment.load(str(path))
    assert trial.experiment.name == name


def test_a_new_type_drops_the_keys_that_it_does_not_have() -> None:
    (trial,) = experiment.load(
        "corner_peg",
        ["operator.type=sine", "operator.amplitude=[1, 0, 0, 0, 0, 0]", "operator.frequency=2"],
    )
    assert trial.experiment.operator.model_dump() == {
        "type": "sine",
        "release": None,
        "tremor": (0.0,) * 6,
        "tremor_band": (8.0, 12.0),
        "amplitude": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        "frequency": 2.0,
        "phase": 0.0,
        "offset": (0.0,) * 6,
    }


def test_a_new_type_does_not_excuse_a_key_that_was_set() -> None:
    message = problem("corner_peg", "operator.type=file", "operator.path=x.csv", "operator.wrench=[0, 0, 0, 0, 0, 0]")
    assert message == "operator.wrench: unknown key (known: type, release, tremor, tremor_band, path)"


def test_a_list_for_one_value_sweeps() -> None:
    trials = experiment.load("corner_peg", ["contact.restitution=[0, 0.5]", "contact.per=[point, wall]"])
    assert [trial.label for trial in trials] == [
        f"contact.restitution={e},contact.per={per}" for e in (0, 0.5) for per in ("point", "wall")
    ]
    assert [trial.experiment.contact.restitution for trial in trials] == [0.0, 0.0, 0.5, 0.5]


def test_a_list_for_a_list_is_one_value_and_a_list_of_lists_sweeps() -> None:
    (one,) = experiment.load("corner_peg", ["scene.gap=[0.01, 0.02]"])
    assert one.experiment.scene.gap == (0.01, 0.02)
    two = experiment.load("corner_peg", ["scene.gap=[[0.01, 0.02], [0.03, 0.04]]"])
    assert [trial.experiment.scene.gap for trial in two] == [(0.01, 0.02), (0.03, 0.04)]


def test_a_list_of_lists_for_such_a_key_is_one_value_and_one_more_level_sweeps() -> None:
    """Also where the key is that of a variant that is set beside it."""
    rows, others = [[0, 0, 0, 0], [0.1, 0.001, 0, 0]], [[0, 0, 0, 0], [0.1, 0.002, 0, 0]]
    for name, kind in (("laparoscopic", []), ("coupling_wall", ["operator.type=arm"])):
        (one,) = experiment.load(name, [*kind, f"operator.path={rows}"])
        assert [list(row) for row in one.experiment.operator.path] == rows
        two = experiment.load(name, [*kind, f"operator.path={[rows, others]}"])
        assert [[list(row) for row in trial.experiment.operator.path] for trial in two] == [rows, others]


def test_one_bad_value_of_a_sweep_stops_all() -> None:
    assert problem("corner_peg", "contact.stiffness=[100, -1]") == "contact.stiffness = -1 N/m: must be > 0 N/m"


def test_ticks_are_rounded() -> None:
    (trial,) = experiment.load("corner_peg", duration=0.1)
    assert trial.experiment.last_tick == round(0.1 * 512) == 51


def test_a_resolved_trial_reads_back_the_same(tmp_path: Path) -> None:
    csv = tmp_path / "push.csv"
    csv.write_text("time,fx,fy,fz,tx,ty,tz\n0,1,2,3,4,5,6\n0.1,0.30000000000000004,0,0,0,0,1e-300\n")
    (trial,) = experiment.load("corner_peg", ["operator.type=file", f"operator.path={csv}"])
    target = tmp_path / "trial"
    target.mkdir()
    experiment.write_resolved(trial, target)
    csv.unlink()
    again = experiment.read_resolved(target / "experiment.yaml")
    assert trial.table is not None and again.table is not None
    np.testing.assert_array_equal(again.table, trial.table)
    update = {"operator": trial.experiment.operator.model_copy(update={"path": "operator.csv"})}
    assert again.experiment == trial.experiment.model_copy(update=update)


def test_a_bad_operator_file_is_named_with_its_line(tmp_path: Path) -> None:
    csv = tmp_path / "push.csv"
    csv.write_text("time,fx,fy,fz,tx,ty,tz\n0,0,0,0,0,0,0\n1,0,0,nan,0,0,0\n")
    said = problem("corner_peg", "operator.type=file", f"operator.path={csv}")
    assert said == f"{csv}, line 3: '1,0,0,nan,0,0,0': must be seven finite numbers"
    missing = tmp_path / "none.csv"
    said = problem("corner_peg", "operator.type=file", f"operator.path={missing}")
    assert said == f"operator.path = {missing}: cannot be read: No such file or directory"


COARSER = {  # than in the files: meshes of the fineness there take 13 s each to prepare
    "bone_saddle": ["scene.bodies.bone.shapes[0].numbers={cells: 30}", "scene.bodies.bone.shapes[0].error=0.002"],
    "mug_on_hook": ["scene.bodies.hook.shapes[0].error=0.005", "scene.bodies.mug.shapes[0].error=0.005"],
}


@pytest.mark.parametrize(
    "name", sampled(sorted(experiment.catalogue()), *(name for name in experiment.catalogue() if name not in COARSER))
)
def test_every_experiment_of_the_catalogue_is_valid(name: str) -> None:
    (trial,) = experiment.load(name)
    assert trial.experiment.title and trial.experiment.source


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", COARSER)
def test_experiments_of_fine_meshes_are_valid_with_coarser_ones(name: str) -> None:
    (trial,) = experiment.load(name, COARSER[name])
    assert trial.experiment.title and trial.experiment.source


@pytest.mark.parametrize(
    ("name", "settings", "rendering"),
    [
        ("corner_peg", ["device.type=inertial"], "full"),  # its file asks for it
        ("door", ["device.impulse_rendering=spread"], "spread"),  # asked for, with penalties
    ],
)
def test_how_impulses_are_rendered_is_as_asked(name: str, settings: list[str], rendering: str) -> None:
    (trial,) = load(name, settings)
    assert trial.experiment.device.impulse_rendering == rendering


@pytest.mark.parametrize(
    ("name", "method", "rendering"),
    [
        ("corner_peg", "impulse_augmented", "spread"),
        ("corner_peg", "frictional_impulses", "spread"),
        ("corner_peg", "penalty", "saturated"),
        ("corner_peg", "constraint", "saturated"),
        ("linkage_topology", "impulse_augmented", "saturated"),  # a linkage
    ],
)
def test_a_device_that_is_not_asked_keeps_its_limit(tmp_path: Path, name: str, method: str, rendering: str) -> None:
    """By spreading impulses where there are some on a tool of one body, else by clipping; the resolved file says so."""
    document = read_document(catalogue()[name])
    document["device"].pop("impulse_rendering")
    document["environment"] = {"method": method}
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(document))
    (trial,) = load(str(path), duration=0.1)
    assert trial.experiment.device.impulse_rendering == rendering
    write_resolved(trial, tmp_path)
    again = read_resolved(tmp_path / "experiment.yaml").experiment
    assert again == trial.experiment
    rendered = np.abs(run_unrecorded(trial).wrench("rendered")).max(axis=0)
    assert (rendered <= again.device.limit()).all()


def test_three_limits_of_a_device_in_space_bound_all_directions() -> None:
    changes = ["device.wrench_limit=[4, 3, 0.5]", "device.bound.wrench=[5, 6, 0.7]", "device.bound.rate=[1, 2, 3]"]
    (trial,) = load("door", changes)
    device = trial.experiment.device
    assert device.wrench_limit == (4, 3, 3, 0.5, 0.5, 0.5)
    assert device.bound.wrench == (5, 6, 5, 0.7, 0.7, 0.7)
    assert device.bound.rate == (1, 2, 1, 3, 3, 3)
    (trial,) = load("corner_peg", changes)
    assert trial.experiment.device.wrench_limit == (4, 3, 0.5), "in the plane they are x, y and rotation about z"


INTEGRAL = "controller={type: four_channel, integral: [1, 1, 0], integral_limit: [1, 1, 0]}"


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("corner_peg", ["local_model.epsilon=0.01"], "local_model.epsilon: not used, as local_model.type = none"),
        ("corner_peg", ["local_model.type=full", "environment.rate=60", "local_model.epsilon=0.01"], ""),
        (
            "dynamic_contact",
            ["environment.method=penalty", "local_model.transient.decay=3"],
            "local_model.transient.decay: not used, as environment.method = penalty has no impacts",
        ),
        ("dynamic_contact", ["local_model.transient.decay=3"], ""),
        ("delayed_wall", [], ""),
        ("stack", ["environment.sleep_time=1"], "environment.sleep_time: not used, as environment.sleep_speed = 0"),
        ("delayed_wall", ["guard.type=tank"], "relay.wave.impedance: not used, as guard.type = tank"),
        ("delayed_wall", ["relay.correction=3"], "relay.correction: not used, as guard.type = wave"),
        (
            "corner_peg",
            ["relay.tank.share=0.5", "guard.type=passivity"],
            "relay.tank.share: not used, as relay.delay = null: there is no relay",
        ),
        (
            "corner_peg",
            ["guard.largest_mobility=[1,1]", "guard.largest_damping=[1,1]"],
            "guard.largest_mobility: not used, as device.type = inertial takes forces",
        ),
        (
            "corner_peg",
            [
                "device.type=admittance",
                "controller.type=admittance",
                "guard.largest_mobility=[1,1]",
                "guard.largest_damping=[1,1]",
            ],
            "guard.largest_damping: not used, as device.type = admittance takes motion",
        ),
        ("corner_peg", [INTEGRAL], ""),
        (
            "corner_peg",
            ["device.damping=[30, 0.1]", INTEGRAL, "controller.operator_wrench=observed"],
            "controller.integral, controller.operator_wrench = observed: left out where the device is analysed for "
            "passivity at the hand",
        ),
        (
            "corner_peg",
            ["guard.type=none", "guard.allowed_energy=[1,1]"],
            "guard.allowed_energy: not used, as guard.type = none does not act at the device's port",
        ),
    ],
)
def test_keys_without_effect_are_said(name: str, changes: list[str], said: str) -> None:
    assert load(name, changes)[0].notes == ((said,) if said else ())


def test_coefficients_of_friction_without_a_model_are_said_to_be_unused() -> None:
    (trial,) = load("corner_peg", ["contact.friction.static=0.5", "contact.friction.kinetic=0.4"])
    assert trial.notes == (
        "contact.friction.static, contact.friction.kinetic: not used, as contact.friction.model = none; name a model "
        "for friction",
    )
    for used in (["contact.friction.static=0.5", "contact.friction.model=coulomb"], ["contact.friction.static=0.25"]):
        assert load("corner_peg", used)[0].notes == ()


def test_an_entry_that_a_misspelt_setting_makes_is_named(tmp_path: Path) -> None:
    file = own_world(tmp_path)
    assert problem(file, "scene.bodies.floot.mass=2").endswith(
        "floot: missing the key 'joint'; settings have made this entry: did you mean floor?"
    )
    assert problem(file, "scene.bodies.lamp.mass=2").endswith("lamp: missing the key 'joint'")


def test_remedies_of_a_scene_of_mujoco_without_a_device_do_not_go_in_a_circle(tmp_path: Path) -> None:
    document = yaml.safe_load((ROOT / "config/experiments/mujoco_peg.yaml").read_text())
    document |= {"device": {"type": "none"}, "environment": {"engine": "haptics"}}
    document["scene"]["file"] = str(ROOT / "config/worlds/mujoco_peg.xml")
    for key in ("controller", "local_model", "guard"):
        document.pop(key, None)
    file = tmp_path / "peg.yaml"
    file.write_text(yaml.safe_dump(document))
    (line,) = problem(str(file)).splitlines()
    assert line.endswith("set device.type=inertial and controller.type=virtual_coupling")
    felt = ("device.type=inertial", "controller.type=virtual_coupling")
    assert problem(str(file), *felt).endswith("set environment.engine=mujoco")
    experiment.load(str(file), [*felt, "environment.engine=mujoco"])


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (
            {"texture": {"type": "grating", "wavelength": 2e-3, "amplitude": 0.01, "direction": [1, 0, 0]}},
            "scene.bodies.b: texture.amplitude = 0.01 m: must be at most 0.00181 m",
        ),
        (
            {"fields": {"g": {"type": "forbidden", "shape": {"type": "sphere", "radius": 0.02}, "stiffness": 9e5}}},
            "scene.fields.g: its stiffness of 9e+05 N/m on m is too large for the rate of 1000 Hz: together at most",
        ),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_a_start_would_refuse_is_refused_when_an_experiment_is_read(
    tmp_path: Path, scene: dict[str, Any], said: str, asynchronous: bool
) -> None:
    """A texture too steep and a field too stiff for the rate: `validate` called both valid."""
    box = {"type": "box", "size": [0.1, 0.1, 0.02], **{k: v for k, v in scene.items() if k == "texture"}}
    bodies = {
        "m": {"joint": "free", "mass": 0.1, "position": [0, 0, 1], "shapes": [{"type": "sphere", "radius": 0.01}]},
        "b": {"joint": "fixed", "shapes": [box]},
    }
    document = {
        "name": "x",
        "duration": 0.05,
        "rate": 1000,
        "device": {"type": "inertial", "mass": 0.5, "inertia": 1e-3},
        "controller": {"type": "virtual_coupling"},
        "operator": {"type": "constant", "wrench": [0, 0, -1, 0, 0, 0]},
        "scene": {"type": "world", "tool": "m", "bodies": bodies, "fields": scene.get("fields", {})},
        **({"local_model": {"type": "full"}, "environment": {"rate": 500}} if asynchronous else {}),
    }
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ParameterError) as caught:
        load(str(tmp_path / "x.yaml"))
    assert said in str(caught.value)
