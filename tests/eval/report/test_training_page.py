"""The page of a training: all of it inside, names escaped, bars on their line; in a browser."""

import re
from dataclasses import replace

import pytest
from chromium import Page, executable
from page_looks import contrast, luminance

from dcaplda.eval.report.training_page import (
    Calibration,
    Curves,
    Line,
    Table,
    TrainingPage,
    render_training,
    write_training_page,
)

needs_browser = pytest.mark.skipif(executable() is None, reason="chromium is not installed")
WIDTHS = (320, 390, 768, 1280)


def row(name: str, cllr: float, minimum: float) -> Calibration:
    return Calibration(
        name=name, kind="domain", cllr=cllr, minimum=minimum, rare=0.7, targets=72, nontargets=12345
    )


def page() -> TrainingPage:
    table = Table(
        title="Calibration on held-out parts",
        caption="Each part was held out.",
        rows=[row("tel <b> & co", 0.8, 0.6), row("mic", 0.2, 0.2)],
    )
    lines = [
        Line(name="training batches", steps=[1, 2, 3], losses=[0.4, 0.3, 0.2]),
        Line(name="dev <i>", steps=[0, 3], losses=[0.5, 0.4], series=0),
        Line(name="dev, minimum", steps=[0, 3], losses=[0.3, 0.3], series=0, dashed=True),
    ]
    return TrainingPage(
        title="Training of exp<1>",
        grade="care",
        headline="Nearly calibrated: some cost is lost",
        sentences=["Cllr 0.500 where <0.4> is possible."],
        facts=[("domains", "tel <b>, mic")],
        tables=[table],
        choices=[("model.lda_dim", "60", "few <people>")],
        curves=Curves(lines=lines, stages=[(3, "stage 2")], chosen=2, prior=0.01),
        warnings=[("durations", "outside of 2.0 to 54.0 s", "none were <seen>")],
    )


def test_the_page_needs_nothing_but_itself(tmp_path) -> None:
    write_training_page(tmp_path / "training.html", page())
    text = (tmp_path / "training.html").read_text()
    assert set(re.findall(r'https?://[^"<\s]+', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert not re.findall(r"<script|@import|<link|src=|url\((?!#)", text)
    assert "prefers-color-scheme: dark" in text
    assert [file.name for file in tmp_path.iterdir()] == ["training.html"]
    assert len(text) < 60_000


def test_words_from_files_are_escaped() -> None:
    text = render_training(page())
    for words in ("exp&lt;1&gt;", "tel &lt;b&gt; &amp; co", "few &lt;people&gt;", "&lt;seen&gt;"):
        assert words in text, words
    assert "dev &lt;i&gt;" in text  # inside of the drawing
    assert not re.search(r"<b>|<i>|<people>|<seen>", text)


def test_every_part_is_there_and_absent_ones_leave_no_heading() -> None:
    text = render_training(page())
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == [
        "Calibration on held-out parts",
        "How it went",
        "What was chosen from the data",
        "What the model will warn about",
        "The run",
    ]
    assert "12,345" in text and ">0.800<" in text and "model.lda_dim" in text
    assert 'class="card verdict care"' in text
    short = render_training(replace(page(), choices=(), curves=None, warnings=()))
    assert re.findall(r"<h2>(.*?)</h2>", short) == [headings[0], headings[4]]
    assert "<svg" not in short


def test_bars_share_a_scale_and_stay_on_it() -> None:
    text = render_training(page())
    places = [float(x) for x in re.findall(r'style="(?:left|width): ([\d.]+)%', text)]
    end = 1.05 * 0.8
    expected = [100 * value / end for value in (0.8, 0.6, 0.2, 0.2)]
    assert places == pytest.approx(expected, abs=0.06)


def test_colours_of_the_drawing_are_the_page_s() -> None:
    text = render_training(page())
    drawing = text[text.index("<svg") : text.index("</svg>")]
    used = set(re.findall(r"var\((--[\w-]+)\)", drawing))
    assert {"--series-1", "--faint", "--marker"} <= used
    for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL):
        assert used <= set(re.findall(r"(--[\w-]+):", block))
    assert "#0103" not in text and "#0102" not in text  # no stand-in is left


LOOK = """(() => {
  const root = document.documentElement, style = e => getComputedStyle(document.querySelector(e));
  const wider = [...document.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, .drawing') && e.getBoundingClientRect().right > root.clientWidth + 1);
  const svg = document.querySelector('svg').getBoundingClientRect();
  return {overflow: root.scrollWidth - root.clientWidth, wider: wider.map(e => e.tagName),
    drawing: [svg.width, svg.height], back: style('body').backgroundColor,
    ink: style('body').color, faint: style('.sub').color, card: style('.card').backgroundColor,
    line: style('svg path[style*="stroke: var(--series-1)"]').stroke,
    bars: [...document.querySelectorAll('.bar')].map(e => e.getBoundingClientRect().width)};
})()"""


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_on_phones_and_desks(tmp_path, scheme: str) -> None:
    write_training_page(tmp_path / "training.html", page())
    browser = Page(f"file://{tmp_path / 'training.html'}")
    try:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.send("Emulation.setEmulatedMedia", features=[feature])
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.send("Emulation.setDeviceMetricsOverride", **size)
            browser.wait_for("document.readyState == 'complete' && !!document.querySelector('svg')")
            seen = browser.value(LOOK)
            assert seen["overflow"] <= 0 and seen["wider"] == [], (width, seen["wider"])
            assert seen["drawing"][0] >= 200 and seen["drawing"][1] >= 100
            assert contrast(seen["ink"], seen["back"]) >= 7.0
            assert contrast(seen["faint"], seen["back"]) >= 4.5
            assert contrast(seen["line"], seen["back"]) >= 3.0
            assert seen["bars"][0] == pytest.approx(4 * seen["bars"][1], rel=0.02)
        assert (luminance(seen["back"]) > 0.8) == (scheme == "light")
    finally:
        browser.close()
