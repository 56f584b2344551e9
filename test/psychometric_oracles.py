"""Results of psignifit, questplus, statsmodels and pingouin for the same data.

`python test/psychometric_oracles.py` records it.

None of them is needed: the tests compare with the recorded numbers, and with the packages where they are installed.
"""

from __future__ import annotations

import importlib
import json
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).parent / "data" / "psychometric_oracles.json"
FAMILIES = {"cumulative_normal": "norm", "logistic": "logistic", "weibull": "gumbel"}  # psignifit: gumbel of ln x
WIDTHS = {  # distance from F = 0.05 to 0.95, which psignifit calls the width, of spread 1
    "cumulative_normal": 2.0 * 1.6448536269514722,
    "logistic": 2.0 * np.log(19.0),
    "weibull": np.log(np.log(0.05) / np.log(0.95)),
}


def tables() -> list[dict[str, Any]]:
    """Answers of an observer to seven levels, drawn from each family, in yes/no and in a forced choice of two."""
    from haptic_study.psychophysics.functions import FUNCTIONS

    rng, found = np.random.default_rng(31), []
    for name in FAMILIES:
        spread = 0.35 if name == "weibull" else 1.1
        for guess in (0.0, 0.5):
            levels, total = np.linspace(1.0, 7.0, 7), np.full(7, 80)
            correct = rng.binomial(total, FUNCTIONS[name].probability(levels, 3.4, spread, guess, 0.03))
            found.append(
                {
                    "function": name,
                    "guess": guess,
                    "levels": levels.tolist(),
                    "correct": correct.tolist(),
                    "total": total.tolist(),
                }
            )
    return found


def psignifit(table: dict[str, Any], flat: bool) -> dict[str, float]:
    """Estimates of psignifit with its priors, or with flat ones, which make them those of largest likelihood.

    Threshold and width of the Weibull function are those of ln x.
    """
    module = importlib.import_module("psignifit")
    data = np.column_stack([table[key] for key in ("levels", "correct", "total")]).astype(float)
    if table["function"] == "weibull":
        data[:, 0] = np.log(data[:, 0])
    more: dict[str, Any] = {}
    if flat:
        more["priors"] = dict.fromkeys(("threshold", "width", "gamma", "eta"), np.ones_like)
        more["priors"]["lambda"] = lambda rate: np.where((rate >= 0.0) & (rate <= 0.1), 1.0, 0.0)
        more["bounds"] = {"lambda": (0.0, 0.1)}
    result = module.psignifit(
        data,
        sigmoid=FAMILIES[table["function"]],
        experiment_type="2AFC" if table["guess"] else "yes/no",
        fixed_parameters={"eta": 1e-8, "gamma": table["guess"]},
        **more,
    )
    return {key: float(value) for key, value in result.parameter_estimate.items()}


QUEST = {
    "intensity": np.linspace(0.5, 10.0, 39).tolist(),
    "threshold": np.linspace(1.0, 8.0, 29).tolist(),
    "slope": [1.0, 1.5, 2.0, 3.0, 4.5],
    "lapse": [0.0, 0.02, 0.05],
}


def questplus(func: str, trials: int) -> dict[str, Any]:
    """Stimuli, answers, posterior and estimates of questplus with the answers of a simulated observer.

    `func` is `norm_cdf`, with slope for its standard deviation, or `weibull` in its customary form.
    """
    module = importlib.import_module("questplus")
    names = ("mean", "sd") if func == "norm_cdf" else ("threshold", "slope")
    domain = {
        names[0]: QUEST["threshold"],
        names[1]: QUEST["slope"],
        "lower_asymptote": [0.5],
        "lapse_rate": QUEST["lapse"],
    }
    prior = np.exp(-0.5 * ((np.array(QUEST["threshold"]) - 4.0) / 2.5) ** 2)
    method = module.QuestPlus(
        stim_domain={"intensity": QUEST["intensity"]},
        param_domain=domain,
        outcome_domain={"response": ["Yes", "No"]},
        prior={names[0]: prior / prior.sum()},
        func=func,
        stim_scale="linear",
    )
    rng, answers, entropies = np.random.default_rng(7), [], []
    for _ in range(trials):
        level = method.next_stim["intensity"]
        z = (level - 4.3) / 1.4
        correct = rng.random() < 0.5 + 0.48 / (1.0 + np.exp(-1.7 * z))
        method.update(stim={"intensity": level}, outcome={"response": "Yes" if correct else "No"})
        answers.append([float(level), int(correct)])
        entropies.append(float(method.entropy))
    order = ["lapse_rate", "lower_asymptote", names[1], names[0]]
    posterior = method.posterior.transpose(*reversed(order)).values.ravel()
    mean = method.param_estimate
    method.param_estimation_method = "mode"
    mode = method.param_estimate
    return {
        "func": func,
        "answers": answers,
        "expected_entropies": entropies,
        "posterior": [float(f"{one:.17g}") for one in posterior],
        "mean": {key: float(value) for key, value in mean.items()},
        "mode": {key: float(value) for key, value in mode.items()},
    }


def measures() -> np.ndarray:
    """Values of eight participants in 3 x 2 conditions."""
    rng = np.random.default_rng(5)
    effect = np.array([[0.0, 0.6], [0.5, 0.9], [1.4, 1.1]])
    return np.round(effect + rng.normal(0.0, 1.0, (8, 1, 1)) + rng.normal(0.0, 0.7, (8, 3, 2)), 3)


def statsmodels(values: np.ndarray) -> dict[str, list[float]]:
    """F, degrees of freedom and p of each effect."""
    pandas = importlib.import_module("pandas")
    anova = importlib.import_module("statsmodels.stats.anova")
    rows = [(p, a, b, values[p, a, b]) for p, a, b in np.ndindex(*values.shape)]
    frame = pandas.DataFrame(rows, columns=["participant", "a", "b", "y"])
    table = anova.AnovaRM(frame, "y", "participant", within=["a", "b"]).fit().anova_table
    return {name: [float(one) for one in row] for name, row in zip(table.index, table.values, strict=True)}


def grouped() -> dict[str, dict[str, Any]]:
    """Values of participants in three conditions, of groups of equal and of unequal sizes, and their effects.

    Of equal groups by pingouin's mixed analysis, with the epsilon of the values without the differences of groups. Of
    unequal ones by statsmodels: sums of squares of type III of ordinary regressions of orthonormal contrasts, added.
    """
    pandas, pingouin = importlib.import_module("pandas"), importlib.import_module("pingouin")
    ols = importlib.import_module("statsmodels.formula.api").ols
    anova_lm = importlib.import_module("statsmodels.stats.anova").anova_lm
    helmert = importlib.import_module("scipy.linalg").helmert
    rng, means = np.random.default_rng(9), {"u": [0.0, 0.5, 1.0], "v": [0.3, 0.2, 1.5], "w": [0.0, 0.0, 0.1]}
    found = {}
    for name, sizes in (("unequal", (5, 4, 6)), ("equal", (8, 8))):
        groups = np.repeat(list(means)[: len(sizes)], sizes)
        values = np.array([means[one] for one in groups])
        values = np.round(values + rng.normal(0.0, 1.0, (len(groups), 1)) + rng.normal(0.0, 0.7, values.shape), 3)
        found[name] = {"groups": groups.tolist(), "values": values.tolist()}
    groups, values = (np.array(found["equal"][key]) for key in ("groups", "values"))

    def table(numbers: np.ndarray) -> Any:
        rows = [(i, groups[i], a, numbers[i, a]) for i, a in np.ndindex(*numbers.shape)]
        return pandas.DataFrame(rows, columns=["participant", "g", "a", "y"])

    made = pingouin.mixed_anova(table(values), dv="y", within="a", subject="participant", between="g")
    effects = {row.Source: [row.F, row.DF1, row.DF2, row.p_unc] for row in made.itertuples()}
    found["equal"]["effects"] = {"g": effects["g"], "a": effects["a"], "a:g": effects["Interaction"]}
    centred = values - np.array([values[groups == one].mean(axis=0) for one in groups])
    found["equal"]["epsilon"] = float(pingouin.epsilon(table(centred), dv="y", within="a", subject="participant"))

    groups, values = (np.array(found["unequal"][key]) for key in ("groups", "values"))
    H = helmert(3)
    for scores, names in (
        (values @ H.T, {"Intercept": "a", "C(g, Sum)": "a:g"}),
        (values.mean(axis=1, keepdims=True), {"C(g, Sum)": "g"}),
    ):
        sums: dict[str, np.ndarray] = {}
        for column in scores.T:
            made = anova_lm(ols("y ~ C(g, Sum)", pandas.DataFrame({"y": column, "g": groups})).fit(), typ=3)
            for term in made.index:
                sums[term] = sums.get(term, 0.0) + made.loc[term, ["sum_sq", "df"]].to_numpy(float)
        square, error = sums["Residual"]
        for term, name in names.items():
            effect, df = sums[term]
            found["unequal"].setdefault("effects", {})[name] = [effect / df / (square / error), df, error]
    return found


def corrections(p_values: list[float]) -> dict[str, list[float]]:
    """Adjusted p-values."""
    multitest = importlib.import_module("statsmodels.stats.multitest")
    methods = {"bonferroni": "bonferroni", "holm": "holm", "benjamini_hochberg": "fdr_bh"}
    return {key: multitest.multipletests(p_values, method=name)[1].tolist() for key, name in methods.items()}


P_VALUES = [0.01, 0.04, 0.03, 0.005, 0.2, 0.03, 0.9]


def main() -> None:
    """Write the file of recorded numbers."""
    document = {
        "versions": {name: metadata.version(name) for name in ("psignifit", "questplus", "statsmodels", "pingouin")},
        "psignifit": [{**one, "flat": psignifit(one, True), "with_priors": psignifit(one, False)} for one in tables()],
        "questplus": [questplus(func, 50) for func in ("norm_cdf", "weibull")],
        "statsmodels": {
            "values": measures().tolist(),
            "effects": statsmodels(measures()),
            "p_values": P_VALUES,
            "corrections": corrections(P_VALUES),
        },
        "grouped": grouped(),
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in document.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main()
