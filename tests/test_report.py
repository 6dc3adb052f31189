"""HTML reports: their text, and their appearance in a browser."""

import functools
import http.server
import itertools
import json
import re
import shutil
import subprocess
import threading
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from helpers import PATIENCE
from softboost import report
from softboost._choice.candidates import CANDIDATES
from softboost._cli import demo as demo_command
from softboost.forecast import _plots as forecast_plots
from softboost.inspection import _plots
from softboost.report import Page, _ticks, bar_chart, heat_map, line_chart

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--enable-logging=stderr",
]
SVG = "{http://www.w3.org/2000/svg}"


def parsed(svg):
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def test_page_escapes_what_it_is_given():
    page = Page("<b>&", "lead")
    page.heading("<i>")
    page.text("1 < 2")
    page.table(["<th>"], [["<td>"]], "cap & tion")
    html = page.html("foot")
    assert "<title>&lt;b&gt;&amp;</title>" in html
    assert "<b>" not in html
    assert "&lt;td&gt;" in html
    assert "1 &lt; 2" in html


def test_page_needs_nothing_from_elsewhere(tmp_path):
    page = Page("title")
    page.figure(line_chart({"a": [1, 2]}), "caption")
    text = page.write(tmp_path / "deep" / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|@import|url\(", text)


def test_line_chart_maps_values_linearly():
    svg = parsed(line_chart({"a": [0.0, 1.0, 2.0]}))
    points = np.array([[float(v) for v in p.split(",")] for p in svg.find(f"{SVG}polyline").get("points").split()])
    assert np.allclose(np.diff(points[:, 0]), np.diff(points[:, 0])[0], atol=0.11)
    assert np.allclose(np.diff(points[:, 1]), np.diff(points[:, 1])[0], atol=0.11)
    assert points[0, 1] > points[-1, 1]  # larger is higher


def test_line_chart_leaves_gaps_out_and_tells_lines_apart():
    svg = parsed(line_chart({"truth": [1, np.nan, 3], "b": [1, 2, 3], "c": [2, 2, 2]}, truth="truth"))
    lines = svg.findall(f"{SVG}polyline")
    assert sorted(len(line.get("points").split()) for line in lines) == [2, 3, 3]
    styles = [(line.get("stroke"), line.get("stroke-dasharray")) for line in lines]
    assert len(set(styles)) == 3


def test_logarithmic_chart_is_linear_in_powers():
    svg = parsed(line_chart({"a": [0.01, 0.1, 1.0]}, log=True))
    heights = [float(p.split(",")[1]) for p in svg.find(f"{SVG}polyline").get("points").split()]
    assert np.allclose(np.diff(heights), np.diff(heights)[0], atol=0.11)


def test_bars_are_as_long_as_their_values():
    svg = parsed(bar_chart({"a": 0.5, "b": 0.25}))
    a, b = (float(rect.get("width")) for rect in svg.findall(f"{SVG}rect"))
    assert a == pytest.approx(2 * b, rel=0.01)


def test_heat_map_colours_signs_apart():
    svg = parsed(heat_map([[1.0, -1.0, 0.0]], ["row"], ["a", "b", "c"]))
    colours = [rect.get("fill") for rect in svg.findall(f"{SVG}rect") if rect.find(f"{SVG}title") is not None]
    assert colours == ["#d55e00", "#0072b2", "#f7f7f7"]


def test_ticks_of_counted_steps_are_whole():
    svg = parsed(line_chart({"a": [10.0, 30.0, 70.0]}, x_label="origin"))
    names = [t.text for t in svg.findall(f"{SVG}text")]
    assert {"1", "2", "3"} <= set(names)
    assert "1.5" not in names


@pytest.mark.parametrize("largest", [0.0008, 7.5, 16000.0, 999900.0, 3.2e8])
def test_labels_of_large_values_stay_inside(largest):
    svg = parsed(line_chart({"a": [0.5 * largest, largest]}))
    labels = [t for t in svg.findall(f"{SVG}text") if t.get("text-anchor") == "end"]
    assert labels
    for label in labels:
        assert float(label.get("x")) - 6.5 * len(label.text) > -1
    assert largest >= 1e6 or not any("e" in label.text for label in labels)


# Simulation of three kinds of colour blindness for linear red, green and blue (Machado, Oliveira and Fernandes, 2009).
BLINDNESS = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, seen_by):
    """CIE L*a*b* of a colour such as #0072B2."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(np.array(BLINDNESS[seen_by]) @ linear, 0, 1) / (TO_XYZ @ np.ones(3))
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("seen_by", BLINDNESS)
def test_colours_differ_for_the_colour_blind(seen_by):
    """Differences below about 10 are hard to see; lines also differ in their dashes."""
    palettes = [
        report.PALETTE[:5],
        ["#0072B2", "#D55E00", _plots.GREY],
        [colour for colour, _ in forecast_plots.STYLES],
    ]
    for palette in palettes:
        for a, b in itertools.combinations(palette, 2):
            assert np.linalg.norm(lab(a, seen_by) - lab(b, seen_by)) > 10, (a, b)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.2, 7.9), (1e-9, 2e-9), (1e6, 3e6), (2.0, 2.0)])
def test_ticks_are_few_round_and_inside(low, high):
    ticks = _ticks(low, high)
    assert len(ticks) <= 7
    assert np.all((ticks >= low - 1e-9 * abs(low)) & (ticks <= high + 1e-9 * abs(high)))


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    steps = []
    summary = demo_command.run(folder / "report.html", steps.append)
    assert len(steps) == demo_command.n_steps()
    return folder, summary


def test_demo_beats_what_it_is_compared_with(demo):
    _, summary = demo
    synthetic, sunspots = (
        {row["model"]: row["mse"] for row in summary["tables"][title]} for title in summary["tables"]
    )
    assert synthetic["softboost"] < 0.015 < 0.1 < synthetic["naive"]
    assert sunspots["softboost"] < 0.5 * sunspots["naive"]
    assert sunspots["softboost"] < sunspots["lasso"]


def test_demo_page_explains_what_was_chosen(demo):
    folder, summary = demo
    html = (folder / "report.html").read_text(encoding="utf-8")
    for chosen in summary["chose"].values():
        named = [
            candidate for candidate in CANDIDATES if re.search(rf"% (anchored )?{re.escape(candidate.name)} \(", chosen)
        ]
        assert named
        assert all(candidate.about in html for candidate in named)


def test_demo_page_holds_every_part(demo):
    folder, summary = demo
    html = (folder / "report.html").read_text(encoding="utf-8")
    for words in ("Cumulative mean squared error", "95% interval", "Q by round", "importances sum to one"):
        assert words in html
    assert html.count("<svg") == 9
    assert all(title.replace("'", "&#x27;") in html for title in summary["tables"])
    json.dumps(summary)  # plain numbers and strings


MEASURE = """<!DOCTYPE html><html><head><link rel="icon" href="data:,"></head><body style="margin:0">
<iframe id="f" src="report.html" style="border:0;width:{width}px;height:{height}px"></iframe>
<pre id="out"></pre><script>
document.getElementById("f").onload = function () {{
  const doc = this.contentDocument, wide = [];
  for (const e of doc.body.querySelectorAll("*"))
    if (!e.closest(".table") && e.getBoundingClientRect().right > {width} + 1) wide.push(e.tagName);
  for (const e of doc.querySelectorAll(".table")) if (e.scrollWidth > e.clientWidth + 1) wide.push("table");
  const cut = [];
  for (const t of doc.querySelectorAll("svg text")) {{
    const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();
    if (a.left < b.left - 1 || a.right > b.right + 1 || a.bottom > b.bottom + 1) cut.push(t.textContent);
  }}
  const small = [...doc.querySelectorAll("svg text")].map(t => t.getBoundingClientRect().height);
  document.getElementById("out").textContent = JSON.stringify({{
    scroll: doc.documentElement.scrollWidth, wide, cut, charts: doc.querySelectorAll("svg").length,
    text: Math.min(...small)}});
}};
</script></body></html>"""


@pytest.fixture(scope="module")
def site(demo):
    folder, _ = demo
    handler = functools.partial(_Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class _Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def browse(profile, *args):
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *args]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert "CONSOLE" not in done.stderr
    return done.stdout


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [360, *(pytest.param(width, marks=pytest.mark.slow) for width in (768, 1280))])
def test_demo_page_fits_every_screen(site, tmp_path, width):
    folder, url = site
    (folder / f"measure{width}.html").write_text(MEASURE.format(width=width, height=900), encoding="utf-8")
    dom = browse(tmp_path / "p", "--virtual-time-budget=10000", "--dump-dom", f"{url}/measure{width}.html")
    found = json.loads(re.search(r'<pre id="out">(.*?)</pre>', dom, re.DOTALL).group(1).replace("&quot;", '"'))
    assert found["scroll"] <= width
    assert found["wide"] == []
    assert found["cut"] == []
    assert found["charts"] == 9
    assert found["text"] >= 8  # pixels, with the line's leading


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_demo_page_is_drawn_and_printed(site, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot", reason="matplotlib reads the screenshot")
    _, url = site
    browse(tmp_path / "a", f"--screenshot={tmp_path / 'page.png'}", "--window-size=800,2000", f"{url}/report.html")
    pixels = plt.imread(tmp_path / "page.png")[..., :3]
    assert pixels.shape[:2] == (2000, 800)
    dark = (pixels.sum(axis=2) < 1.0).mean()
    assert 0.005 < dark < 0.5  # text and lines on paper
    blue = np.all(np.abs(pixels - np.array([0, 0x72, 0xB2]) / 255) < 0.02, axis=2)
    assert blue.sum() > 1000  # bars and lines of the palette
    browse(tmp_path / "b", f"--print-to-pdf={tmp_path / 'page.pdf'}", f"{url}/report.html")
    pdf = (tmp_path / "page.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 5
