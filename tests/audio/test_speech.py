"""Stretches of speech: silero's own numbers, rules written out, pieces against the whole."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from speechlike import babble

from dcaplda.audio.speech.detectors import make_detector
from dcaplda.audio.speech.silero import WINDOWS, Silero
from dcaplda.audio.speech.spans import SpanFinder, SpanRules, find_spans
from dcaplda.runtime.errors import DcapldaError

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "data" / "silero" / "golden.json").read_text(encoding="utf-8")
)
NAMES = {
    "threshold": ("threshold", 1.0),
    "min_speech_duration_ms": ("min_speech", 1e-3),
    "min_silence_duration_ms": ("min_silence", 1e-3),
    "speech_pad_ms": ("pad", 1e-3),
}


def rules_of(told: dict[str, float]) -> SpanRules:
    return SpanRules(**{NAMES[key][0]: value * NAMES[key][1] for key, value in told.items()})


@pytest.mark.parametrize("case", GOLDEN["rules"])
def test_the_rules_are_those_of_silero(case: dict) -> None:
    rate, total = case["rate"], case["total"]
    rules = rules_of(case["settings"])
    found = find_spans(case["probabilities"], rules, rate, WINDOWS[rate], total)
    # Where padded stretches touch, silero keeps two and we join them.
    joined: list[list[int]] = []
    for begin, end in case["spans"]:
        if joined and begin <= joined[-1][1] + 1:
            joined[-1][1] = end
        else:
            joined.append([begin, end])
    assert [list(span) for span in found] == joined


@pytest.fixture(scope="module")
def silero() -> Silero:
    return Silero()


@pytest.mark.parametrize("case", GOLDEN["signals"])
def test_probabilities_are_those_of_silero_in_torch(case: dict, silero: Silero) -> None:
    rate, expected = case["rate"], case["probabilities"]
    signal = babble(rate)
    (alone,) = silero.probabilities([signal], rate)
    np.testing.assert_allclose(alone, expected, atol=1e-4)
    # Side by side with others, longer and shorter.
    others = [signal[:5000], babble(rate, 20.0, seed=9), signal, signal[:1]]
    among = silero.probabilities(others, rate)
    np.testing.assert_allclose(among[2], expected, atol=1e-4)
    assert [len(p) for p in among] == [-(-len(x) // WINDOWS[rate]) for x in others]
    # And piece by piece, also the longest, which is laid beside the others in two goes.
    for long, wanted in ((signal, expected), (others[1], among[1])):
        stream = silero.stream(rate)
        pieces = np.array_split(long, 37)
        values = [p for piece in pieces for p in stream.accept(piece)] + stream.finish()
        np.testing.assert_allclose(values, wanted, atol=1e-4)


values = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=80)
some_rules = st.builds(
    lambda threshold, speech, silence, pad: SpanRules(
        threshold=threshold, min_speech=speech, min_silence=silence, pad=pad * silence
    ),
    st.floats(0.05, 0.95),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.floats(0, 1),
)


@settings(max_examples=200, deadline=None)
@given(values, some_rules, st.integers(0, 511))
def test_stretches_are_in_order_inside_the_signal_and_loud_windows_are_in_them(
    probabilities: list[float], rules: SpanRules, missing: int
) -> None:
    total = len(probabilities) * 512 - missing
    spans = find_spans(probabilities, rules, 16000, 512, total)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(set(edges))
    assert not edges or (edges[0] >= 0 and edges[-1] <= total)
    # A run of windows above the threshold that is long enough is all speech.
    covered = np.zeros(total, bool)
    for begin, end in spans:
        covered[begin:end] = True
    run = 0
    for number, value in enumerate(probabilities):
        run = run + 512 if value >= rules.threshold else 0
        end = min((number + 1) * 512, total)
        if run - 512 > rules.min_speech * 16000:
            assert covered[end - run + 512 : end].all()


@settings(max_examples=200, deadline=None)
@given(values, some_rules)
def test_what_was_given_out_is_never_taken_back_and_nothing_is_dropped_early(
    probabilities: list[float], rules: SpanRules
) -> None:
    finder = SpanFinder(rules, 16000, 512)
    given_out: list[tuple[int, int]] = []
    kept_from = 0
    for value in probabilities:
        span = finder.accept(value)
        if span is not None:
            # Only samples that were kept, and that have been heard.
            assert kept_from <= span[0] and (not given_out or given_out[-1][1] <= span[0])
            given_out.append(span)
        assert finder.undecided >= kept_from
        kept_from = finder.undecided
    last = finder.finish(len(probabilities) * 512)
    assert last is None or last[0] >= kept_from


def test_silence_noise_and_a_pure_tone_are_no_speech_to_silero() -> None:
    rng = np.random.default_rng(0)
    t = np.arange(48000) / 16000
    signals = [
        np.zeros(48000, np.float32),
        rng.normal(0, 0.1, 48000).astype(np.float32),
        (0.3 * np.sin(2 * np.pi * 1000 * t)).astype(np.float32),
    ]
    assert make_detector("silero").spans(signals, 16000) == [[], [], []]


@pytest.mark.parametrize("rate", [11025, 44100])
def test_at_another_rate_the_stretches_lie_at_the_same_times(rate: int) -> None:
    detector = make_detector("silero")
    at_16k = detector.spans([babble(16000)], 16000)[0]
    other = detector.spans([babble(rate)], rate)[0]
    covered = [sum(end - begin for begin, end in spans) for spans in (at_16k, other)]
    assert covered[1] / rate == pytest.approx(covered[0] / 16000, rel=0.15)


def test_energy_finds_the_loud_part() -> None:
    rng = np.random.default_rng(0)
    signal = rng.normal(0, 1e-4, 48000).astype(np.float32)
    signal[16000:32000] += rng.normal(0, 0.1, 16000).astype(np.float32)
    detector = make_detector("energy", pad=0.0)
    ((begin, end),) = detector.spans([signal], 16000)[0]
    assert abs(begin - 16000) <= 320 and abs(end - 32000) <= 320
    assert detector.spans([np.zeros(16000, np.float32)], 16000) == [[]]
    with pytest.raises(DcapldaError, match="needs the whole recording"):
        detector.stream(16000)


@pytest.mark.parametrize(
    ("name", "told", "words"),
    [
        ("webrtc", {}, "expected silero or energy or none"),
        ("none", {"threshold": 0.3}, "takes no settings"),
        ("silero", {"threshold": 1.5}, "between 0 and 1"),
        ("silero", {"pad": 0.2}, "cannot be longer than min_silence"),
        ("silero", {"min_speech": -1.0}, "expected 0 to 60"),
    ],
)
def test_settings_that_mean_nothing_are_refused(name: str, told: dict, words: str) -> None:
    with pytest.raises(DcapldaError, match=words):
        make_detector(name, **told)


def test_another_model_in_the_place_of_silero_is_refused(tmp_path: Path) -> None:
    from extractors import write_extractor

    path = write_extractor(tmp_path / "other.onnx")
    with pytest.raises(DcapldaError, match="takes feats; expected silero_vad.onnx"):
        make_detector("silero", str(path))
