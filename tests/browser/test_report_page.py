"""The report in headless Chromium: nothing on its console, every plot drawn, tables sort, themes and widths.

Chromium's own switches do it all: a probe is appended to a copy of the page, writes what it sees into an
attribute of the document, and ``--dump-dom`` prints it.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import run_planner

pytestmark = pytest.mark.browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in BROWSERS if (path := shutil.which(name))), "")

PROBE = """
<script>
const first = document.querySelector("table"), heads = first.querySelectorAll("th button");
const text = (cell) => cell.dataset.sort ?? cell.textContent;
const column = (number) => [...first.tBodies[0].rows].map((row) => text(row.cells[number]));
const seen = { sorts: [] };
for (let number = 0; number < heads.length; number++) {
  heads[number].click(); const up = column(number);
  heads[number].click(); const down = column(number);
  seen.sorts.push([up, down]);
}
const count = (plot, what) => plot.querySelectorAll(what).length;
const plots = [...document.querySelectorAll(".plot")];
seen.plots = plots.map((plot) => [plot.id, count(plot, ".main-svg"), count(plot, "path")]);
seen.ground = getComputedStyle(document.body).backgroundColor;
document.getElementById("theme").click();
seen.other = getComputedStyle(document.body).backgroundColor;
seen.overflow = document.documentElement.scrollWidth - window.innerWidth;
document.body.style.maxWidth = "340px";  // of a phone, narrower than a headless window can be
seen.cut = [...document.querySelectorAll(".sliders output")].map(
  (one) => one.getBoundingClientRect().right - one.parentElement.getBoundingClientRect().right);
document.body.style.maxWidth = "";
seen.slid = [...document.querySelectorAll(".sliders input")].map((input) => {
  const tiles = input.closest(".sliders").querySelector(".tiles");
  const before = tiles.textContent, own = input.value;
  input.value = input.max; input.dispatchEvent(new Event("input"));
  const told = [input.parentElement.querySelector("output").textContent, tiles.textContent !== before];
  input.value = own; input.dispatchEvent(new Event("input"));
  return [...told, tiles.textContent === before];
});
seen.loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
seen.reading = window.read - window.began;
seen.drawing = performance.now() - window.read;
document.documentElement.dataset.seen = JSON.stringify(seen);
</script>
"""

CLOCK = "<script>window.{} = performance.now();</script>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("plotly")
    if not CHROMIUM:
        pytest.skip("there is no Chromium on the PATH")
    folder = tmp_path_factory.mktemp("pages")
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "16", "--global-batch", "64")
    axes = ("--tp", "4", "--pp", "4", "--sequence-parallel", "--zero", "1")
    assert run_planner("estimate", *job, *axes, "--save", "plan.yaml", cwd=folder).returncode == 0
    found = run_planner("search", *job, "--format", "json", cwd=folder)
    (folder / "search.json").write_text(found.stdout)
    for source, name, more in (("plan.yaml", "plan", ["--sliders"]), ("search.json", "search", [])):
        arguments = ["--search", *more, "--out", f"{name}.html"]
        done = run_planner("report", source, *arguments, cwd=folder, timeout=200)
        assert done.returncode == 0, done.stderr
    return {name: folder / f"{name}.html" for name in ("plan", "search")}


def look(page: Path, width: int, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what the probe saw, and the lines of the console."""
    probed = folder / "probed.html"
    head, library, rest = page.read_text("utf-8").partition("<script>")
    text = (
        head
        + CLOCK.format("began")
        + library
        + rest.replace("</script>", "</script>" + CLOCK.format("read"), 1)
    )
    probed.write_text(text.replace("</body>", f"{PROBE}</body>"), "utf-8")
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
            f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--v=0", "--dump-dom",
            probed.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found is not None, done.stderr[-2000:]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(found[1])), console


@pytest.mark.parametrize("name", ["plan", "search"])
@pytest.mark.parametrize("width", [500, 800, 1280])
def test_the_page_draws_sorts_and_fits(pages: dict[str, Path], name: str, width: int, tmp_path: Path) -> None:
    seen, console = look(pages[name], width, tmp_path)
    assert console == []
    assert len(seen["plots"]) == {"plan": 6, "search": 3}[name]
    assert all(surfaces and paths > 3 for _, surfaces, paths in seen["plots"])
    assert seen["overflow"] <= 0
    assert seen["loaded"] == []
    assert seen["drawing"] < 4 * seen["reading"]  # of the library alone: half to once as long
    assert seen["ground"] != seen["other"]


def test_sliders_show_other_plans_and_come_back(pages: dict[str, Path], tmp_path: Path) -> None:
    seen, _ = look(pages["plan"], 1280, tmp_path)
    assert [told for told, *_ in seen["slid"]] == ["64", "128", "8,192"]
    assert all(changed and back for _, changed, back in seen["slid"])
    assert max(seen["cut"]) <= 0.5


def key(text: str) -> tuple[int, float, str]:
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text.lower())


def test_every_column_sorts_both_ways(pages: dict[str, Path], tmp_path: Path) -> None:
    seen, _ = look(pages["search"], 1280, tmp_path)
    for up, down in seen["sorts"]:
        if all(key(text)[0] == 0 for text in up):
            numbers = [float(text) for text in up]
            assert numbers == sorted(numbers)
            assert [float(text) for text in down] == sorted(numbers, reverse=True)
        assert sorted(up) == sorted(down)


def test_the_page_is_small_enough_to_mail(pages: dict[str, Path]) -> None:
    assert all(path.stat().st_size < 8e6 for path in pages.values())
