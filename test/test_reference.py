"""The page of keys is what the declarations say."""

from conftest import ROOT

from haptic_bench.experiment.reference import page


def test_the_page_is_current() -> None:
    assert (ROOT / "docs" / "parameters.md").read_text(encoding="utf-8") == page(), (
        "python -m haptic_bench.experiment.reference"
    )
