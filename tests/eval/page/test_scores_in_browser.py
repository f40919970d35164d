"""The page of eval-scores in a browser: 1, 20 and 100 sets, keyboard, phone, paper, colours."""

import base64
import json

import pytest
from chromium import Page, executable
from many_sets import findings
from page_looks import contrast, luminance

from dcaplda.eval.page.scores_page import write_scores_page
from dcaplda.eval.verdict.costs import Limits
from dcaplda.eval.verdict.one_set import Judge, verdict

pytestmark = pytest.mark.skipif(executable() is None, reason="chromium is not installed")

SYSTEMS = ("plda", "d-plda-dsd", "cosine")
HOSTILE = "<img src=x onerror='window.hit=1'>&amp;</script><script>window.hit=2</script>"
SIZES = {1: 150_000, 20: 900_000, 100: 3_000_000}
"""Most bytes of a page by its number of sets."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Files by number of sets; 2 has hostile names."""
    folder = tmp_path_factory.mktemp("pages")
    found = {n: findings(n, SYSTEMS, n_groups=min(n, 4) if n > 1 else 0, baseline="plda")
             for n in SIZES}  # fmt: skip
    found[2] = findings(2, (HOSTILE, "b"), name=HOSTILE + "{}", baseline=HOSTILE)
    for number, one in found.items():
        write_scores_page(str(folder / f"{number}.html"), one, Limits(), f"{number} sets")
    return {number: (folder / f"{number}.html", one) for number, one in found.items()}


@pytest.fixture(scope="module")
def browser():
    page = Page("about:blank")
    yield page
    page.close()


def visit(browser, pages, number, width=1280, scheme="light", medium=""):
    browser.show(width, scheme, medium)
    browser.visit(f"file://{pages[number][0]}")


def names(browser):
    """Sets from the top, without the means."""
    rows = "[...document.querySelectorAll('#heat tbody.sets')].map(b => +b.dataset.row)"
    return browser.value(rows)


def focus(browser, selector):
    assert browser.value(f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
                         " e.focus(); return document.activeElement === e; })()")  # fmt: skip


@pytest.mark.parametrize("number", SIZES)
def test_the_page_is_small_and_seen_at_once(browser, pages, number):
    assert pages[number][0].stat().st_size < SIZES[number]
    visit(browser, pages, number)
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    assert browser.wait_for(paint) > 0
    assert browser.value("!document.getElementById('controls').hidden")  # the script came through
    if number > 1:
        cells = "document.querySelectorAll('#heat td').length"
        assert browser.value(cells) == 3 * (number + 1 + 4)
        assert browser.value("document.querySelectorAll('svg').length") == 0  # until asked for


WIDER = """(() => {
  const root = document.documentElement, wide = root.clientWidth + 1;
  const out = [...document.querySelectorAll('body *')].filter(e =>
    !e.parentElement.closest('.scroll, .plain, svg') && e.getBoundingClientRect().right > wide);
  return {overflow: root.scrollWidth - root.clientWidth, out: out.slice(0, 3).map(e =>
    e.tagName + '.' + e.className + ' ' + e.textContent.slice(0, 40))};
})()"""


@pytest.mark.parametrize("number", [1, 2, 20, 100])
@pytest.mark.parametrize("width", [320, 390, 768, 1280, 1920])
def test_nothing_is_wider_than_the_screen(browser, pages, number, width):
    visit(browser, pages, number, width)
    browser.value("document.querySelectorAll('button.open').forEach((b, i) => {"
                  " if (i < 6 && b.ariaExpanded !== 'true') b.click(); })")  # fmt: skip
    assert browser.value("document.querySelectorAll('svg.chart').length") >= 7
    seen = browser.value(WIDER)
    assert seen["overflow"] <= 0 and seen["out"] == [], seen
    text = "Math.min(...[...document.querySelectorAll('.chart text')].map("
    assert browser.value(f"{text}t => t.getBoundingClientRect().height))") >= 8.0


def test_a_table_that_is_cut_off_says_so(browser, pages):
    for width, cut in ((320, True), (1280, False)):
        visit(browser, pages, 20, width)
        browser.wait_for("document.querySelector('.frame').className != 'frame'")
        assert browser.value("document.querySelector('.frame').classList.contains('cut')") is cut
    visit(browser, pages, 20, 320)
    browser.value("document.querySelector('.scroll').scrollLeft = 9999")
    browser.wait_for("!document.querySelector('.frame').classList.contains('cut')")


def test_columns_sort_by_keyboard(browser, pages):
    path, found = pages[100]
    visit(browser, pages, 100)
    cllr = {r.set: r.values["cllr_0.5"] for r in found.results if r.system == "cosine"}
    order = [cllr[name] for name in found.sets]
    first = names(browser)[0]
    focus(browser, "[data-sort='2'] button.sort")
    groups = [range(25 * k, 25 * k + 25) for k in range(4)]
    for way, sign in (("descending", -1), ("ascending", 1)):
        browser.press("Enter")
        assert browser.value("document.querySelector('[data-sort=\"2\"]').ariaSort") == way
        expected = [i for g in groups for i in sorted(g, key=lambda i: (sign * order[i], i))]
        assert [row - first for row in names(browser)] == expected
    others = "[...document.querySelectorAll('#heat thead th')].map(t => t.ariaSort)"
    assert browser.value(others).count("none") == len(SYSTEMS)
    browser.press(" ")  # the third time it is the file's order again
    assert [row - first for row in names(browser)] == list(range(100))
    focus(browser, "[name=grouped]")
    browser.press(" ")
    focus(browser, "[data-sort='2'] button.sort")
    browser.press("Enter")
    expected = sorted(range(100), key=lambda i: (-order[i], i))
    assert [row - first for row in names(browser)] == expected
    assert browser.value("[...document.querySelectorAll('#heat .heading')].every(h => h.hidden)")


def test_names_sort_too(browser, pages):
    visit(browser, pages, 20)
    first = names(browser)[0]
    browser.value("document.querySelector('[name=grouped]').click()")
    focus(browser, "[data-sort='name'] button.sort")
    browser.press("Enter")
    expected = sorted(range(20), key=lambda i: f"set-{i}")
    assert [row - first for row in names(browser)] == expected


def test_sets_open_by_keyboard(browser, pages):
    visit(browser, pages, 20)
    focus(browser, "#heat tbody.sets button.open")
    browser.press("ArrowDown")
    browser.press("Enter")
    seen = browser.value("""(() => {
      const button = document.activeElement, body = button.closest('tbody');
      const detail = document.getElementById(button.getAttribute('aria-controls'));
      return {expanded: button.ariaExpanded, name: button.textContent, row: +body.dataset.row,
        inside: body.contains(detail), charts: detail.querySelectorAll('svg.chart').length,
        heads: [...detail.querySelectorAll('h4')].map(h => h.textContent)};
    })()""")
    assert seen["expanded"] == "true" and seen["inside"] and seen["name"].startswith("set-1")
    assert seen["charts"] == 4 + len(SYSTEMS)
    told = " | ".join(seen["heads"])
    for words in ("By duration: EER of", "By domain: EER of", "DET", "Cost over the prior", "PAV"):
        assert words in told, words
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert browser.value(outline) != "none"  # the focus is seen
    browser.press("Enter")
    assert browser.value("document.activeElement.ariaExpanded") == "false"
    assert browser.value("document.querySelector('tr.detail').hidden")


def test_a_mean_opens_to_its_sets(browser, pages):
    visit(browser, pages, 20)
    browser.value("document.querySelector('#heat tbody.means button.open').click()")
    told = browser.value("document.querySelector('tr.detail').textContent")
    assert "mean of set-0, set-1" in told and "Cllr − plda" in told


def test_a_difference_beyond_its_interval_has_a_star_in_the_figures(browser, pages):
    _, found = pages[20]
    visit(browser, pages, 20)
    by_place = {(d.set, d.system): d for d in found.differences if not d.average}
    stars = set()
    for place, name in enumerate(found.sets[:6]):
        texts = browser.value(f"""(() => {{
          const body = document.querySelectorAll('#heat tbody.sets')[{place}];
          body.querySelector('button.open').click();
          const rows = [...body.querySelectorAll('.figures tbody tr')];
          return rows.map(tr => tr.lastChild.firstChild.textContent);
        }})()""")
        assert texts[0] == "–" and len(texts) == len(SYSTEMS)
        for text, system in zip(texts[1:], SYSTEMS[1:], strict=True):
            low, high = by_place[name, system].intervals["cllr_0.5"]
            assert text.endswith(" *") == (low > 0 or high < 0)
            stars.add(text.endswith(" *"))
    assert stars == {True, False}


def test_lines_and_circles_are_drawn_as_their_records_say(browser, pages):
    visit(browser, pages, 1)
    seen = browser.value("""(() => {
      const style = e => getComputedStyle(e), charts = [...document.querySelectorAll('svg.chart')];
      return {titles: charts.map(c => c.ariaLabel), lines: charts.map(c =>
        [...c.querySelectorAll('path.line')].map(l => [l.dataset.series,
          style(l).strokeDasharray != 'none', style(l).fill != 'none'])),
        circles: [...charts[0].querySelectorAll('circle')].map(m => [m.dataset.series,
          style(m).fill == style(m).stroke]), rows: data.rows.at(-1)};
    })()""")
    records = seen["rows"]["charts"] + seen["rows"]["histograms"]
    for drawn_lines, record in zip(seen["lines"], records, strict=True):
        expected = [["" if s is None else str(s), style == "dash", bool(filled)]
                    for s, style, filled, _ in record["lines"]]  # fmt: skip
        assert drawn_lines == expected
    marks = [[str(series), bool(filled)] for series, filled, *_ in records[0]["marks"]]
    assert seen["circles"] == marks and {filled for _, filled in marks} == {True, False}
    assert seen["titles"][0] == "Errors at every threshold (DET)"


def shown(browser):
    """Texts and classes of the heat cells of the second set."""
    cells = "document.querySelectorAll('#heat tbody.sets')[1].rows[0].querySelectorAll('td')"
    return browser.value(f"[...{cells}].map(c => [c.textContent, c.className])")


def test_switches_show_every_number_at_every_prior(browser, pages):
    _, found = pages[20]
    visit(browser, pages, 20)
    results = found.of_set("set-1")
    judge = Judge()
    focus(browser, "[name=prior]")
    for place, prior in enumerate(("0.5", "0.01")):
        if place:
            browser.press("ArrowRight")
        browser.value("document.querySelector('[value=cllr]').click()")
        for key in ("cllr", "lost", "cost", "eer"):
            browser.value(f"document.querySelector('[value={key}]').click()")
            for (text, grade), result in zip(shown(browser), results, strict=True):
                lost = judge.lost(result)[place]
                value = {"lost": lost.value, "cost": lost.actual}.get(key)
                value = (
                    result.values[f"cllr_{prior}" if key == "cllr" else "eer"]
                    if value is None
                    else value
                )
                assert float(text) == pytest.approx(value, abs=0.051 if value >= 10 else 0.0051)
                expected = judge.grade(result.values, lost)
                assert grade == f"g{('yes', 'care', 'no').index(expected)}"
        browser.value("document.querySelector('[value=diff]').click()")
        texts = [text for text, _ in shown(browser)]
        assert texts[0] == "–"  # the baseline itself
        by_system = {(d.system, d.set): d for d in found.differences if not d.average}
        for text, system in zip(texts[1:], SYSTEMS[1:], strict=True):
            difference = by_system[system, "set-1"]
            low, high = difference.intervals[f"cllr_{prior}"]
            value = float(text.replace("−", "-").removesuffix(" *"))
            assert value == pytest.approx(difference.values[f"cllr_{prior}"], abs=6e-4)
            assert text.endswith("*") == (low > 0 or high < 0)
        focus(browser, "[name=prior]:checked")
    assert browser.value("document.getElementById('shown-prior').textContent") == "0.01"


def test_an_open_set_follows_the_prior(browser, pages):
    visit(browser, pages, 1)
    head = "document.querySelector('.figures th').textContent"
    first = browser.value("document.querySelector('.figures td').textContent")
    assert browser.value(head) == "at prior 0.5"
    browser.value("document.querySelectorAll('[name=prior]')[1].click()")
    assert browser.value(head) == "at prior 0.01"
    assert browser.value("document.querySelector('.figures td').textContent") != first


def test_lines_of_a_system_can_be_hidden(browser, pages):
    visit(browser, pages, 1)
    lines = "[...document.querySelectorAll('.chart [data-series=\"1\"]')]"
    count = browser.value(f"{lines}.length")
    assert count >= 6 and browser.value(f"{lines}.every(l => l.style.display == '')")
    focus(browser, ".legend button:nth-child(2)")
    browser.press("Enter")
    assert browser.value(f"{lines}.every(l => l.style.display == 'none')")
    assert browser.value("document.activeElement.ariaPressed") == "false"


@pytest.mark.parametrize("number", [1, 20])
def test_one_set_needs_no_table_of_sets_and_its_details_are_there(browser, pages, number):
    visit(browser, pages, number)
    alone = number == 1
    assert browser.value("!document.getElementById('heat')") is alone
    assert browser.value("document.querySelectorAll('svg.chart').length > 0") is alone
    verdicts = browser.value("document.querySelectorAll('.verdict').length")
    assert verdicts == len(SYSTEMS)  # each is told once


def test_ids_with_markup_are_text(browser, pages):
    visit(browser, pages, 2)
    seen = browser.value("""({hit: window.hit ?? null, images: document.images.length,
      scripts: document.scripts.length, title: document.querySelector('#heat thead').textContent,
      name: document.querySelector('#heat tbody.sets button').textContent,
      all: document.body.textContent})""")
    assert seen["hit"] is None and seen["images"] == 0 and seen["scripts"] == 2
    assert HOSTILE in seen["title"] and seen["name"].startswith(f"{HOSTILE}0")
    assert f"Usable as they are: {HOSTILE}" in seen["all"] or f"{HOSTILE}" in seen["all"]
    browser.value("document.querySelectorAll('button.open').forEach(b => b.click())")
    assert browser.value("window.hit ?? null") is None


COLOURS = """(() => {
  const seen = e => getComputedStyle(e), style = e => seen(document.querySelector(e));
  const cells = [...document.querySelectorAll('#heat > tbody > tr:first-child > td')].map(seen);
  const verdicts = [...document.querySelectorAll('.verdict')];
  const {backgroundColor: back, color: ink} = style('body');
  return {back, ink, faint: style('.lead').color,
    line: style('svg path.line[data-series="0"]').stroke,
    cells: cells.map(c => [c.color, c.backgroundColor]),
    verdicts: verdicts.flatMap(v => [v, v.querySelector('strong')].map(
      e => [seen(e).color, seen(v).backgroundColor]))};
})()"""
TRIAL = """(() => {
  const cells = [0, .1, .3, .5, .7, .9, 1].map(t => `<td class=try style="--t:${t}">`).join('');
  const table = document.createElement('table');
  table.className = 'heat';
  table.innerHTML = `<tbody><tr>${cells}</tr></tbody>`;
  document.body.append(table);
  return [...table.querySelectorAll('td')].map(td => getComputedStyle(td).backgroundColor);
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_can_be_read(browser, pages, scheme):
    visit(browser, pages, 20, 1280, scheme)
    browser.value("document.querySelectorAll('button.open')[6].click()")
    seen = browser.value(COLOURS)
    assert (luminance(seen["back"]) > 0.8) == (scheme == "light")
    assert contrast(seen["ink"], seen["back"]) >= 7.0
    assert contrast(seen["faint"], seen["back"]) >= 4.5
    assert contrast(seen["line"], seen["back"]) >= 3.0
    grounds = {ground for _, ground in seen["cells"]}
    assert len(grounds) > 5  # more than one temperature
    for ink, ground in seen["cells"] + seen["verdicts"]:
        assert contrast(ink, to_srgb(browser, ground)) >= 4.5, (ink, ground)


def to_srgb(browser, colour):
    """A computed colour, maybe oklab, as the screen shows it."""
    if colour.startswith("rgb("):
        return colour
    return browser.value(f"""(() => {{ const c = document.createElement('canvas').getContext('2d');
      c.fillStyle = {json.dumps(colour)}; c.fillRect(0, 0, 1, 1);
      return `rgb(${{[...c.getImageData(0, 0, 1, 1).data].slice(0, 3).join(', ')}})`; }})()""")


def test_hotter_is_never_nearer_to_cold(browser, pages):
    """The colours tell more from less without hue: their lightness falls (in the dark: rises)."""
    for scheme, sign in (("light", -1), ("dark", 1)):
        visit(browser, pages, 20, 1280, scheme)
        grounds = browser.value(TRIAL)
        light = [luminance(to_srgb(browser, ground)) for ground in grounds]
        assert light == sorted(light, reverse=sign < 0) and abs(light[-1] - light[0]) > 0.08


def test_paper_has_the_table_and_no_switches(browser, pages):
    visit(browser, pages, 20, 718, "dark", "print")  # A4 within its margins, from a dark screen
    seen = browser.value(WIDER)
    assert seen["overflow"] <= 0 and seen["out"] == [], seen
    hidden = "[...document.querySelectorAll('.controls, .hint')].every(e => !e.offsetParent)"
    assert browser.value(hidden)
    table = "document.getElementById('heat').getBoundingClientRect().right"
    assert browser.value(table) <= 719
    assert luminance(browser.value("getComputedStyle(document.body).backgroundColor")) > 0.9
    pdf = base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF-") and len(pdf) > 10_000


def test_without_script_the_table_and_the_words_are_there(browser, pages):
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        visit(browser, pages, 20)
        seen = browser.value("document.body.innerText")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
    for words in ("Lowest mean Cllr over 20 sets", "set-19", "need this page's script", "Terms"):
        assert words in seen, words
    assert "Target prior\n0.5" not in seen  # no switch that does nothing


def test_marks_mean_what_the_legend_says(browser, pages):
    visit(browser, pages, 20)
    legend = " ".join(browser.value("document.querySelector('.marks').textContent").split())
    assert legend == "○ usable with care ● not usable 0.123 too few trials to tell"
    for grade, mark, words in ((1, "○", "usable with care,"), (2, "●", "not usable,")):
        content = browser.wait_for(
            f"getComputedStyle(document.querySelector('#heat td.g{grade}'), '::before').content"
        )
        assert mark in content and words in content
    plain = "getComputedStyle(document.querySelector('#heat td.g0'), '::before').content"
    assert browser.value(plain) == "none"


def test_a_condition_of_few_trials_has_no_verdict(browser, pages):
    """Of 600 nontarget trials one costs 0.165 at prior 0.01, and 1/60 of 60 targets at 0.5."""
    visit(browser, pages, 1)
    cells = "[...document.querySelectorAll('.conditions td:not(.none)')].filter(c => c.textContent)"
    few = f"{cells}.filter(c => c.className == 'g3')"
    assert browser.value(f"{few}.length") == 0 < browser.value(f"{cells}.length")
    title = f"{cells}[0].title"
    assert browser.value(title) == "60 target, 600 nontarget trials"
    browser.value("document.querySelectorAll('[name=prior]')[1].click()")
    assert browser.value(f"{few}.length") == browser.value(f"{cells}.length")
    assert browser.value(title) == "too few trials to tell: 60 target, 600 nontarget trials"
    look = f"getComputedStyle({cells}[0])"
    assert browser.value(f"{look}.backgroundColor") == "rgba(0, 0, 0, 0)"
    assert browser.value(f"getComputedStyle({cells}[0], '::before').content") == "none"


def test_an_open_set_names_who_is_usable_and_tells_of_the_others(browser, pages):
    _, found = pages[20]
    visit(browser, pages, 20)
    seen = {"yes": 0, "care": 0, "no": 0}
    for place, name in enumerate(found.sets[:6]):
        judged = {r.system: verdict(r, Judge()) for r in found.of_set(name)}
        told = browser.value(f"""(() => {{
          const body = document.querySelectorAll('#heat tbody.sets')[{place}];
          body.querySelector('button.open').click();
          const cards = [...body.querySelectorAll('.detail .verdict')];
          return {{text: body.querySelector('.detail').textContent, cards: cards.map(c => [
            c.className.split(' ').pop(), c.querySelector('h3').textContent,
            c.querySelector('strong').textContent, c.querySelector('p').textContent])}};
        }})()""")
        expected = [[v.grade, system, v.headline, " ".join(v.sentences)]
                    for system, v in judged.items() if v.grade != "yes"]  # fmt: skip
        assert told["cards"] == expected
        usable = [system for system, v in judged.items() if v.grade == "yes"]
        words = f"Usable as {'they are' if len(usable) > 1 else 'it is'}: {', '.join(usable)}."
        assert (words in told["text"]) == bool(usable)
        for one in judged.values():
            seen[one.grade] += 1
    assert all(seen.values()), seen  # the sets above have all grades
