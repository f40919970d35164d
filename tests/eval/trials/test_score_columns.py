"""Score files of more than three columns, as AS-norm writes them."""

import json

import pytest

from dcaplda.bin.calibrate_scores import main as calibrate
from dcaplda.bin.eval_scores import main as evaluate
from dcaplda.eval.trials.ids import IdTable
from dcaplda.eval.trials.joining import read_scores
from dcaplda.runtime.errors import TableError

NAMES = ("a", "b", "c", "d")
SCORES = (2.5, -1.25, -0.75, -3.0, 1.0, -0.5)
PAIRS = [(x, y) for i, x in enumerate(NAMES) for y in NAMES[i + 1 :]]
WORDS = ("target", "nontarget")


@pytest.fixture
def files(tmp_path):
    """Trials, scores of three columns, and those of AS-norm."""
    rows = list(zip(PAIRS, SCORES, [WORDS[i % 2] for i in range(6)], strict=True))
    (tmp_path / "trials").write_text("".join(f"{x} {y} {w}\n" for (x, y), _, w in rows))
    (tmp_path / "three").write_text("".join(f"{x} {y} {s}\n" for (x, y), s, _ in rows))
    eight = "".join(
        f"{x} {y} {s:.5f} {w} 0.1234 0.0456 0.2345 0.0{i}67\n"
        for i, ((x, y), s, w) in enumerate(rows)
    )
    (tmp_path / "eight").write_text(eight)
    plain = "".join(f"{x} {y} 0.7 {s} 0.3\n" for (x, y), s, _ in rows)
    (tmp_path / "unclear").write_text(plain)
    return tmp_path


def values(path, column=None):
    return read_scores(str(path), IdTable(), column=column).values.tolist()


def test_the_third_is_the_score_where_a_label_follows(files) -> None:
    assert values(files / "eight") == values(files / "three") == list(SCORES)
    words = files / "words"
    words.write_text("a b 1.5 x y z\n")
    assert values(words) == [1.5]


def test_where_several_may_be_meant_the_column_is_asked_for(files) -> None:
    with pytest.raises(TableError, match="5 words, and more than one may be .* --score-column=3"):
        values(files / "unclear")
    assert values(files / "unclear", 4) == list(SCORES)
    assert values(files / "unclear", 3) == [0.7] * 6
    for wrong in (1, 2, 6):
        with pytest.raises(TableError, match=f"--score-column={wrong}, but it has 5 words"):
            values(files / "unclear", wrong)
    with pytest.raises(TableError, match="line 1: expected a score, found 'target'"):
        values(files / "eight", 4)


@pytest.mark.parametrize(("name", "options"), [("eight", []), ("unclear", ["--score-column=4"])])
def test_the_tools_read_them(files, name: str, options: list[str]) -> None:
    """The same result and the same calibration as of three columns."""
    found = []
    for scores, more in (("three", []), (name, options)):
        out = files / f"{scores}.json"
        words = [str(files / "trials"), str(files / scores)]
        assert evaluate([*more, "--bootstrap=0", f"--json={out}", *words]) == 0
        results = json.loads(out.read_text())
        told = [{k: v for k, v in r.items() if k not in ("system", "scores")} for r in results]
        assert calibrate([*more, "--prior=0.5", *words, str(files / "c.json")]) == 0
        fitted = json.loads((files / "c.json").read_text())
        applied = [f"--apply={files}/c.json", str(files / scores), str(files / "llrs")]
        assert calibrate([*more, *applied]) == 0
        found.append((told, fitted, (files / "llrs").read_text().splitlines()))
    assert found[0] == found[1]


def test_lines_that_lack_the_column_are_named(files) -> None:
    text = (files / "unclear").read_text().splitlines()
    text[3] = "b d 0.7"
    (files / "unclear").write_text("\n".join(text) + "\n")
    with pytest.raises(TableError, match="line 4: expected 'enroll test ... score in column 4'"):
        values(files / "unclear", 4)
