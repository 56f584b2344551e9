"""The page of a trial in a real browser: on a phone, on a screen, in the dark, printed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import browser
import pytest
from conftest import answer

pytestmark = [pytest.mark.exhaustive, pytest.mark.drawn]
browser.require()

CONTRAST = """(() => {
  const channel = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number);
    return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  };
  const paper = element => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if (colour !== 'rgba(0, 0, 0, 0)') return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  let least = 21;
  for (const element of document.querySelectorAll('h1, h2, p, dt, dd, th, td, .tag, .source, a, summary')) {
    if (!element.innerText.trim()) continue;
    const [a, b] = [light(getComputedStyle(element).color), light(paper(element))].sort((x, y) => y - x);
    least = Math.min(least, (a + 0.05) / (b + 0.05));
  }
  return least;
})()"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Browser]:
    folder = tmp_path_factory.mktemp("report")
    status, _, err = answer("run", "delayed_wall", "--mode", "offline", "--out", str(folder / "trial"))
    assert status == 0, err
    with browser.Browser((folder / "trial" / "report.html").as_uri(), Path(folder) / "profile") as shown:
        shown.wait("document.querySelector('footer') !== null")
        yield shown


@pytest.mark.parametrize("width", [390, 420, 1200])
def test_nothing_is_cut_and_the_verdict_stands_first(page: browser.Browser, width: int) -> None:
    page.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 700)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = """[...document.querySelectorAll('main *')].filter(one =>
      !one.closest('.scroll, svg, pre') && one.getBoundingClientRect().right > innerWidth + 1).length"""
    assert page.evaluate(beyond) == 0
    words = page.text()
    assert words.index("passive") < words.index("The scene") < words.index("Claims and measurements")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(page: browser.Browser, scheme: str) -> None:
    """The contrast of WCAG 2 for text, 4.5, in both colour schemes."""
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    assert page.evaluate(CONTRAST) >= 4.5


def test_print_shows_what_is_folded_and_no_controls(page: browser.Browser) -> None:
    page.call("Emulation.setEmulatedMedia", media="print", features=[])
    assert page.evaluate("getComputedStyle(document.querySelector('.motion')).display") == "none"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgba(0, 0, 0, 0)"
    page.call("Emulation.setEmulatedMedia", media="")
