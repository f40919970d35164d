"""Trial keys and scores are joined by ids, and everything odd is counted or refused."""

import gzip

import numpy as np
import pytest

from dcaplda.eval.trials import ids as ids_module
from dcaplda.eval.trials import keys, lines
from dcaplda.eval.trials.ids import IdTable
from dcaplda.eval.trials.joining import join, read_score_label_lines, read_scores
from dcaplda.eval.trials.keys import Allowance, read_key
from dcaplda.runtime.errors import DcapldaError
from dcaplda.runtime.tables.columns import Columns

TRIALS = "a x target\na y nontarget\nb x nontarget\nb y target\n"
SCORES = "a x 1.5\na y -2\nb x -3e-1\nb y 0.25\n"


@pytest.fixture
def joined(tmp_path):
    """A function from file contents to what the join makes of them."""

    def run(trials=TRIALS, scores=SCORES, *allow, form="auto", columns=None):
        for name, content in (("trials", trials), ("scores", scores)):
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
        ids = IdTable()
        allowance = Allowance.of(*allow)
        key = read_key(str(tmp_path / "trials"), ids, allowance, form, columns)
        scores_read = read_scores(str(tmp_path / "scores"), ids, columns, key)
        return join(key, scores_read, allowance)

    return run


def by_label(found):
    target, nontarget = found.split()
    return sorted(target.tolist()), sorted(nontarget.tolist())


EXPECTED = ([0.25, 1.5], [-2.0, -0.3])


def test_scores_in_another_order_find_their_trials(joined):
    shuffled = "b y 0.25\na y -2\nb x -0.3\na x 1.5\n"
    found = joined(TRIALS, shuffled)
    assert by_label(found) == EXPECTED
    assert found.scores.tolist() == [1.5, -2.0, -0.3, 0.25]  # in the order of the trials


@pytest.mark.parametrize(
    "trials",
    [
        TRIALS,
        "1 a x\n0 a y\n0 b x\n1 b y\n",
        "a x tgt\na y imp\nb x imp\nb y tgt\n",
        "a x 1\na y 0\nb x 0\nb y 1\n",
        "a x true\na y false\nb x False\nb y TRUE\n",
        "a\tx\ttarget\r\na  y nontarget\r\n b x nontarget \nb y target",
        "a x target\na y nontarget\nb x nontarget\nb y target\n\n\n",
        b"\xef\xbb\xbf" + TRIALS.encode(),
    ],
)
def test_every_known_form_of_trials_means_the_same(joined, trials):
    assert by_label(joined(trials, SCORES)) == EXPECTED


def test_gzip_and_pipes_are_read(joined, tmp_path):
    assert by_label(joined(gzip.compress(TRIALS.encode()), SCORES)) == EXPECTED
    (tmp_path / "scores").write_text(SCORES)
    found = read_scores(f"cat {tmp_path}/scores |", IdTable())
    assert found.values.tolist() == [1.5, -2.0, -0.3, 0.25]


def test_tables_with_a_header_are_read(joined):
    trials = "modelid\tsegmentid\tside\ttargettype\n" + "".join(
        f"{enroll}\t{test}\ta\t{label}\n"
        for enroll, test, label in (line.split() for line in TRIALS.splitlines())
    )
    scores = "modelid,segmentid,side,LLR\na,x,a,1.5\na,y,a,-2\nb,x,a,-0.3\nb,y,a,0.25\n"
    assert by_label(joined(trials, scores, columns=Columns())) == EXPECTED
    # A key of NIST's and scores of score-trials.
    assert by_label(joined(trials, SCORES, columns=Columns())) == EXPECTED
    other = scores.replace("LLR", "mine")
    with pytest.raises(DcapldaError, match="enroll test score"):
        joined(trials, other, columns=Columns())
    assert by_label(joined(trials, other, columns=Columns(score=("mine",)))) == EXPECTED


def test_a_label_after_the_score_is_ignored(joined):
    assert by_label(joined(TRIALS, SCORES.replace("\n", " nontarget\n"))) == EXPECTED


def test_many_blocks_give_the_same_as_one(joined, monkeypatch):
    rng = np.random.default_rng(0)
    pairs = [(f"e{i}", f"t{j}") for i in range(40) for j in range(30)]
    labels = rng.integers(0, 2, len(pairs))
    values = rng.normal(size=len(pairs)).round(4)
    trials = "".join(
        f"{e} {t} {('nontarget', 'target')[y]}\n" for (e, t), y in zip(pairs, labels, strict=True)
    )
    order = rng.permutation(len(pairs))
    scores = "".join(f"{pairs[i][0]} {pairs[i][1]} {values[i]}\n" for i in order)
    monkeypatch.setattr(lines, "BLOCK_BYTES", 200)
    found = joined(trials, scores)
    assert found.scores.tolist() == values.tolist()
    assert found.labels.tolist() == labels.astype(bool).tolist()


@pytest.mark.parametrize("block_bytes", [40, 1 << 25])
@pytest.mark.parametrize(
    "bad,words",
    [
        (b"a z nan\n", "the score is NaN"),
        (b"a  z\tx\n", "expected a score"),
        (b"a z\n", "'enroll test score'"),
        (b"\xff z 3\n", "not UTF-8"),
    ],
)
def test_errors_name_the_line_in_any_block(tmp_path, monkeypatch, block_bytes, bad, words):
    monkeypatch.setattr(lines, "BLOCK_BYTES", block_bytes)
    good = b"".join(b"e%d t 1.5\n" % number for number in range(20))
    (tmp_path / "scores").write_bytes(good + bad + good.replace(b"e", b"f"))
    with pytest.raises(DcapldaError, match="line 21: ") as caught:
        read_scores(str(tmp_path / "scores"), IdTable())
    assert words in str(caught.value)


def test_oddities_are_counted_when_allowed(joined):
    trials = TRIALS + "c x target\nc y\nb y target\n"
    scores = SCORES + "z z 9\na x 1.5\nc y 4\n"
    found = joined(trials, scores, "missing", "extra", "duplicate", "unlabelled")
    assert by_label(found) == EXPECTED
    counts = found.counts
    assert (counts.missing, counts.extra, counts.duplicate, counts.unlabelled) == (1, 1, 2, 1)


def test_the_first_of_repeated_scores_counts(joined):
    found = joined(TRIALS, "a x 1.5\n" + SCORES.replace("a x 1.5", "a x 99"), "duplicate")
    assert by_label(found) == EXPECTED


@pytest.mark.parametrize(
    "trials,scores,words",
    [
        (TRIALS + "c x target\n", SCORES, "1 of 5 trials have no score, first 'c' 'x'"),
        (TRIALS, SCORES + "z x 1\n", "1 scores are of no trial, first 'z' 'x'"),
        (TRIALS, SCORES + "a x 1.5\n", "1 scores are repeated, first 'a' 'x'"),
        (TRIALS + "a x target\n", SCORES, "1 trials are repeated, first 'a' 'x'"),
        (TRIALS + "a z\n", SCORES + "a z 0\n", "1 trials have no label"),
        (TRIALS + "b z maybe\n", SCORES, "line 5: label 'maybe' is unknown"),
        (TRIALS + "b\n", SCORES, "line 5: expected 'enroll test label', found 'b'"),
        (TRIALS + "b z target x\n", SCORES, "line 5: expected 'enroll test label'"),
        ("a x target\n\nb x nontarget\n", SCORES, "line 2: expected 'enroll test label', found a"),
        ("", SCORES, "the file is empty"),
        (TRIALS, "", "the file is empty"),
        (TRIALS, SCORES + "c y nan\n", "line 5: the score is NaN"),
        (TRIALS, SCORES + "c y high\n", "line 5: expected a score, found 'high'"),
        (TRIALS, SCORES + "c y\n", "line 5: expected 'enroll test score', found 'c y'"),
        (TRIALS, b"a x 1.5\n\xff\xfe y 2\n", "line 2: b'\\xff\\xfe y 2\\n' is not UTF-8"),
        (TRIALS, b"a x 1.5\n\0\0\n", "line 2: control character"),
    ],
)
def test_each_oddity_is_one_line_that_names_the_place(joined, trials, scores, words):
    with pytest.raises(DcapldaError) as caught:
        joined(trials, scores)
    text = str(caught.value)
    assert words in text and "\n" not in text
    assert "trials'" in text or "scores'" in text  # the file


def test_a_trial_with_two_labels_is_never_allowed(joined):
    with pytest.raises(DcapldaError, match="'a' 'x' is both target and nontarget"):
        joined(TRIALS + "a x nontarget\n", SCORES, "duplicate")


def test_infinite_scores_pass(joined):
    found = joined(TRIALS, SCORES.replace("1.5", "inf").replace("-2", "-inf"))
    assert by_label(found) == ([0.25, np.inf], [-np.inf, -0.3])


def test_ids_that_look_like_labels_are_told_apart_by_the_form(joined):
    trials = "1 0 1\n0 1 0\n"
    scores = "1 0 2\n0 1 -1\n"
    assert by_label(joined(trials, scores)) == ([2.0], [-1.0])
    by_first = joined("1 0 1\n0 1 0\n", "0 1 2\n1 0 -1\n", form="label-enroll-test")
    assert by_label(by_first) == ([2.0], [-1.0])


def test_kaldi_score_label_lines_are_read(tmp_path):
    path = tmp_path / "lines"
    path.write_text("0.5 target\n-1 nontarget\n2.5 target\n")
    scores, labels = read_score_label_lines(str(path))
    assert scores.tolist() == [0.5, -1.0, 2.5]
    assert labels.tolist() == [True, False, True]


@pytest.mark.parametrize("allow", [(), ("extra",)])
def test_ids_that_match_without_wav_are_recognised(joined, allow):
    named = TRIALS.replace(" x", ".wav x.wav").replace(" y", ".wav y.wav")
    assert named.startswith("a.wav x.wav target\n")
    with pytest.raises(DcapldaError, match="match once '.wav' is cut from the trials' ids"):
        joined(named, SCORES, *allow)
    scores = SCORES.replace(" x", ".wav x.wav").replace(" y", ".wav y.wav")
    with pytest.raises(DcapldaError, match="match once '.wav' is cut from the scores' ids"):
        joined(TRIALS, scores, *allow)
    with pytest.raises(DcapldaError) as caught:
        joined(TRIALS, SCORES.replace("a", "c"), "extra")
    assert "match once" not in str(caught.value)


def in_blocks(monkeypatch, size=64):
    """Files of several blocks, and ids that are guessed from the second on."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", size)
    monkeypatch.setattr(ids_module, "LEAST_GUESSED", 1)


def long_list(rng, n=60):
    """Lines of trials and of their scores, in order."""
    pairs = [(f"m{i:02d}", f"t{j:02d}") for i in range(6) for j in range(10)][:n]
    words = ("nontarget", "target")
    trials = [f"{a} {b} {words[int(k % 3 == 0)]}" for k, (a, b) in enumerate(pairs)]
    scores = [f"{a} {b} {rng.normal():.5f}" for a, b in pairs]
    return trials, scores


def text(rows):
    return "\n".join(rows) + "\n"


def by_dictionary(trials, scores):
    """Scores in the order of the trials, joined in plain Python; the first of repeated ones."""
    found = {}
    for row in scores:
        a, b, value = row.split()
        found.setdefault((a, b), float(value))
    return [found[tuple(row.split()[:2])] for row in trials if tuple(row.split()[:2]) in found]


@pytest.mark.parametrize("changed_at", [None, 0, 1, 30, 58])
def test_scores_that_leave_the_trials_order_find_their_trials(joined, monkeypatch, changed_at):
    """Two neighbours change places somewhere: before that lines are compared, then looked up."""
    in_blocks(monkeypatch)
    trials, scores = long_list(np.random.default_rng(1))
    if changed_at is not None:
        k = changed_at
        scores[k], scores[k + 1] = scores[k + 1], scores[k]
    found = joined(text(trials), text(scores))
    assert found.scores.tolist() == by_dictionary(trials, scores)
    assert found.whole


@pytest.mark.parametrize(("n_trials", "n_scores"), [(60, 50), (50, 60)])
def test_lists_of_unequal_length_are_joined_as_far_as_they_go(
    joined, monkeypatch, n_trials, n_scores
):
    in_blocks(monkeypatch)
    trials, scores = long_list(np.random.default_rng(2))
    trials, scores = trials[:n_trials], scores[:n_scores]
    found = joined(text(trials), text(scores), "missing", "extra")
    assert found.scores.tolist() == by_dictionary(trials, scores)
    assert (found.counts.missing, found.counts.extra) == (max(0, n_trials - n_scores),
                                                          max(0, n_scores - n_trials))  # fmt: skip
    assert found.whole is (n_trials == 50)


def test_a_score_that_is_repeated_at_the_end_is_counted(joined, monkeypatch):
    in_blocks(monkeypatch)
    trials, scores = long_list(np.random.default_rng(3))
    found = joined(text(trials), text([*scores, scores[0][:8] + "9.0"]), "duplicate")
    assert found.counts.duplicate == 1 and found.scores.tolist() == by_dictionary(trials, scores)


@pytest.mark.parametrize("share", [1, 10**6])
def test_repeated_trials_are_found_by_ticking_off_and_by_sorting(joined, monkeypatch, share):
    monkeypatch.setattr(keys, "PAIRS_PER_TRIAL", share)
    trials, scores = long_list(np.random.default_rng(4))
    assert joined(text(trials), text(scores)).counts.duplicate == 0
    with pytest.raises(DcapldaError, match="1 trials are repeated, first 'm00' 't03'"):
        joined(text([*trials, trials[3]]), text(scores))


@pytest.mark.parametrize(
    "word",
    ["1e5", "-1E-3", "+2", ".5", "5.", "inf", "-inf", "Infinity", "-infinity", "1e400", "-0"],
)
def test_numbers_read_at_once_are_those_read_one_by_one(joined, word):
    """A line that needs a closer look makes the block be read as words and then as numbers."""
    at_once = joined("a x 1\nb y 0\n", f"a x {word}\nb y 1\n").scores
    as_words = joined("a x 1\nb y 0\n", f"a  x {word}\nb y 1\n").scores
    assert at_once.tolist() == as_words.tolist()


@pytest.mark.parametrize("word", ["nan", "-NaN", "x", "1,5", "0x10", "1_000"])
def test_what_is_no_number_is_refused_either_way(joined, word):
    for blanks in (" ", "  "):
        with pytest.raises(
            DcapldaError, match="line 2: (expected a score|the score is NaN), found"
        ):
            joined("a x 1\nb y 0\n", f"a{blanks}x 1\nb y {word}\n")
