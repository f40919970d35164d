"""The page of a place: all of it inside, names escaped, every mark on its line."""

import re

import pytest
from page_looks import contrast

from dcaplda.eval.report.place_page import GRADES, PlacePage, Scale, render_place, write_place_page


def page(action: str = "adapt") -> PlacePage:
    return PlacePage(
        title="Place of scp:<b>.scp & co",
        action=action,
        headline="Adapt: use the adapted bundle",
        reasons=["One place.", "Known well."],
        scales=[Scale(name="offset", value=0.9, marks=[(0.6, "near"), (1.2, "too far")])],
        rows=[("utterances", "30", "worth <12> people"), ("places", "one", "by chance 40 %")],
    )


def test_the_page_needs_nothing_but_itself(tmp_path) -> None:
    write_place_page(str(tmp_path / "place.html"), page())
    text = (tmp_path / "place.html").read_text()
    assert not re.findall(r"https?://|<script|@import|url\(|<link|src=", text)
    assert "prefers-color-scheme: dark" in text
    assert [file.name for file in tmp_path.iterdir()] == ["place.html"]


def test_words_from_files_are_escaped() -> None:
    text = render_place(page())
    assert "scp:&lt;b&gt;.scp &amp; co" in text and "<b>" not in text
    assert "worth &lt;12&gt; people" in text


@pytest.mark.parametrize("action", GRADES)
def test_every_action_has_its_colour(action: str) -> None:
    assert f'class="card verdict {GRADES[action]}"' in render_place(page(action))


def test_values_and_marks_stay_on_the_line() -> None:
    text = render_place(page())
    places = [float(x) for x in re.findall(r"(?:left|width): ([\d.]+)%", text)]
    assert len(places) >= 3 and all(0 <= place <= 100 for place in places)
    assert places[:3] == pytest.approx([100 * v / (1.15 * 1.2) for v in (0.9, 0.6, 1.2)], abs=0.1)
    far = Scale(name="offset", value=7.0, marks=[(1.0, "usual")])
    assert far.percent(7.0) == "87.0%" and far.percent(-1.0) == "0.0%"


def test_colours_can_be_read_in_light_and_dark() -> None:
    """Contrast of text and of verdicts with their ground, at least 4.5 as WCAG asks."""
    text = render_place(page())
    for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL):
        colour = dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        pairs = [("ink", "page"), ("faint", "card"), ("ink", "card")]
        pairs += [(grade, f"{grade}-back") for grade in ("yes", "care", "no")]
        pairs += [("ink", f"{grade}-back") for grade in ("yes", "care", "no")]
        for one, two in pairs:
            assert contrast(colour[one], colour[two]) >= 4.5, (one, two)
