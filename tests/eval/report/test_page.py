"""The report, looked at by a real browser where one is installed."""

import html
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from dcaplda.bin.eval_scores import main

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="Debian's chromium is not installed")
WIDTHS = (320, 390, 768, 1280)


def write_bundle(folder):
    """A model.json as export-onnx writes it; the report reads nothing else of a bundle."""
    stage = {
        "seconds": [1.0, 10.0, 100.0],
        "alpha": [[0.5, 0.6, 0.7], [0.6, 0.8, 0.9], [0.7, 0.9, 1.0]],
        "beta": [[0.5, 0.2, 0.1], [0.2, 0.0, -0.1], [0.1, -0.1, -0.4]],
    }
    graphs = {
        name: {"file": f"{name}.onnx", "sha256": "0" * 64}
        for name in ("backend", "voiceprint", "compare", "pairs")
    }
    manifest = {
        "format": "dcaplda-bundle",
        "format_version": 1,
        "variant": "d-plda-dsd",
        "embedding_dim": 32,
        "voiceprint_dim": 42,
        "uses_durations": True,
        "training": {"prior": 0.01, "speakers": 150, "note": "<script>alert(1)</script>"},
        "calibration": {"duration": stage},
        "graphs": graphs,
    }
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(manifest))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A report of two systems on two sets with everything in it; one set has a hostile name."""
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(0)
    names = [(f"s{s:02d}", f"s{s:02d}-{i}") for s in range(10) for i in range(4)]
    trials, scores = [], {"good": [], "off": []}
    for i, (speaker, name) in enumerate(names):
        for other, test in names[i + 1 :]:
            same = speaker == other
            trials.append(f"{name} {test} {'target' if same else 'nontarget'}")
            llr = rng.normal(4.5 if same else -4.5, 3)
            scores["good"].append(f"{name} {test} {llr:.4f}")
            scores["off"].append(f"{name} {test} {3 * llr + 4:.4f}")
    (folder / "trials").write_text("\n".join(trials) + "\n")
    for system, lines in scores.items():
        (folder / f"{system}.scores").write_text("\n".join(lines) + "\n")
    (folder / "utt2spk").write_text("".join(f"{name} {speaker}\n" for speaker, name in names))
    (folder / "utt2dur").write_text("".join(f"{n} {rng.uniform(2, 50):.1f}\n" for _, n in names))
    (folder / "utt2dom").write_text(
        "".join(f"{name} {'tel' if i % 2 else 'mic'}\n" for i, (_, name) in enumerate(names))
    )
    write_bundle(folder / "bundle")
    tables = "".join(f'{name} = "{name}"\n' for name in ("utt2spk", "utt2dur", "utt2dom"))
    sets = [
        f'[[set]]\nname = "home"\ntrials = "trials"\ngroup = "DEV"\n{tables}',
        '[[set]]\nname = "a <b> & co"\ntrials = "trials"\ngroup = "DEV"\n',
    ]
    systems = [
        '[[system]]\nname = "good"\nscores = "good.scores{set}"\nmodel = "bundle"\n',
        '[[system]]\nname = "off"\nscores = "off.scores{set}"\n',
    ]
    for system in scores:
        for name in ("home", "a <b> & co"):
            shutil.copy(folder / f"{system}.scores", folder / f"{system}.scores{name}")
    (folder / "sets.toml").write_text("\n".join(sets + systems))
    page = folder / "report.html"
    arguments = ["--bootstrap=20", "--title=Tests & more", f"--table={folder / 'sets.toml'}"]
    assert main([*arguments, f"--report={page}"]) == 0
    return page


def test_the_page_needs_nothing_but_itself(report):
    text = report.read_text()
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?((?:https?:)?//[^"\')\s]+)', text)
    assert outside == []
    assert set(re.findall(r'https?://[^"<\s]+', text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "<script" not in text and "@import" not in text
    assert 'href="data:' not in text.replace('xlink:href="data:image/png', "")


def test_names_from_files_are_escaped(report):
    text = report.read_text()
    assert "a &lt;b&gt; &amp; co" in text and "<b>" not in text
    assert "alert(1)" in text and "<script>" not in text  # from model.json, as text


def test_every_part_is_there(report):
    text = html.unescape(report.read_text())
    for words in (
        "Can the scores be used with the Bayes threshold?",
        "Yes: use the Bayes threshold",
        "No: calibrate first",
        "too confident",
        "d-plda-dsd",
        "training / speakers",
        "seconds of speech",
        "results by duration",
        "results by domain",
        "95 % intervals from 20 bootstrap replicates",
        "DEV (mean of 2 sets)",
    ):
        assert words in text, words
    for title in ("DET", "Tippett", "Calibration (PAV)", "Bayes error", "histograms",
                  "Cllr by duration", "alpha_d and beta_d", "Cllr at prior 0.01"):  # fmt: skip
        assert title in text, title


def test_ids_are_unique(report):
    ids = re.findall(r'\sid="([^"]+)"', report.read_text())
    assert len(ids) == len(set(ids))
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', report.read_text()))
    assert used <= set(ids)


@pytest.mark.parametrize(
    "ending,magic", [("pdf", b"%PDF-"), ("png", b"\x89PNG"), ("svg", b"<?xml")]
)
def test_plots_are_files_that_open(tmp_path, ending, magic):
    lines = tmp_path / "lines"
    lines.write_text("2 target\n-3 nontarget\n0.5 target\n-0.2 nontarget\n1 nontarget\n")
    options = [f"--plots={tmp_path / 'plots'}", f"--plot-format={ending}", "--prior=0.5"]
    assert main([*options, str(lines)]) == 0
    files = sorted((tmp_path / "plots").iterdir())
    assert len(files) == 7  # five curves, bars of Cllr and of DCF
    assert all(file.suffix == f".{ending}" for file in files)
    assert all(file.read_bytes().startswith(magic) for file in files)


PROBE = """<!DOCTYPE html><meta name="color-scheme" content="light dark">
<body><pre id="out"></pre><script>
const source = %s, widths = %s, found = {};
function seen(frame) {
  const page = frame.contentDocument, root = page.documentElement, view = frame.contentWindow;
  for (const d of page.querySelectorAll('details')) d.open = true;
  const drawings = [...page.querySelectorAll('svg')].map(s => s.getBoundingClientRect());
  const wider = [...page.querySelectorAll('body *')].filter(e =>
    !e.closest('.scroll, .drawing') && e.getBoundingClientRect().right > root.clientWidth + 1);
  const small = [...page.querySelectorAll('.gallery figure:not(.wide) svg text')].map(
    t => t.getBoundingClientRect().height);
  const style = e => view.getComputedStyle(page.querySelector(e));
  return {overflow: root.scrollWidth - root.clientWidth, wider: wider.slice(0, 3).map(
      e => e.tagName + '.' + e.className),
    drawings: drawings.length, empty: drawings.filter(r => r.width < 200 || r.height < 100).length,
    text: small.length ? Math.min(...small) : 0,
    back: style('body').backgroundColor, ink: style('body').color, faint: style('.sub').color,
    line: style('svg path[style*="stroke: var(--series-1)"]').stroke,
    rows: page.querySelectorAll('tbody tr').length};
}
async function run() {
  for (const width of widths) {
    const frame = document.createElement('iframe');
    frame.style.cssText = `width:${width}px;height:900px;border:0`;
    frame.srcdoc = source;
    document.body.append(frame);
    await new Promise(done => frame.onload = done);
    found[width] = seen(frame);
    frame.remove();
  }
  document.getElementById('out').textContent = JSON.stringify(found);
}
run();
</script>"""


def look(report, folder, dark):
    """Open the page in frames of several widths and measure what the browser made of it."""
    source = json.dumps(report.read_text()).replace("</", "<\\/")
    probe = folder / f"probe-{dark}.html"
    probe.write_text(PROBE % (source, json.dumps(WIDTHS)))
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         f"--user-data-dir={folder / 'profile'}", "--window-size=1400,1000", *scheme,
         "--virtual-time-budget=20000", "--timeout=60000", "--dump-dom", f"file://{probe}"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stderr[-2000:]
    return {int(width): values for width, values in json.loads(html.unescape(found[1])).items()}


def luminance(colour):
    """Relative luminance of `rgb(r, g, b)` as WCAG defines it."""
    channels = [int(x) / 255 for x in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    high, low = sorted((luminance(one), luminance(two)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@needs_browser
def test_a_browser_shows_it_on_phones_and_desks_in_light_and_dark(report, tmp_path):
    light, dark = (look(report, tmp_path, dark) for dark in (False, True))
    for found in (light, dark):
        for width in WIDTHS:
            page = found[width]
            assert page["overflow"] <= 0 and page["wider"] == [], (width, page["wider"])
            assert page["drawings"] >= 20 and page["empty"] == 0
            assert page["rows"] >= 6
            assert page["text"] >= 5.0  # the smallest letters of a drawing, in pixels
            assert contrast(page["ink"], page["back"]) >= 7.0
            assert contrast(page["faint"], page["back"]) >= 4.5
            assert contrast(page["line"], page["back"]) >= 3.0
    assert luminance(light[390]["back"]) > 0.8 > 0.05 > luminance(dark[390]["back"])
    assert light[390]["line"] != dark[390]["line"]
