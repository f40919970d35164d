"""Writes the numbers of this folder with silero's own package (torch, silero-vad).

pip install torch==2.13.0 silero-vad==6.2.3
python tests/data/silero/make_golden.py ../shared/data/audio/flac
"""

import json
import sys
from pathlib import Path

import numpy as np
import soundfile
import torch
from silero_vad import get_speech_timestamps, load_silero_vad
from silero_vad.utils_vad import get_speech_timestamps_from_probs

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from speechlike import babble  # noqa: E402

RULES = (
    {},
    {"threshold": 0.3, "min_speech_duration_ms": 100},
    {"threshold": 0.7, "min_silence_duration_ms": 300, "speech_pad_ms": 150},
    {"min_speech_duration_ms": 0, "min_silence_duration_ms": 32, "speech_pad_ms": 0},
)


def spans(found: list[dict[str, int]]) -> list[list[int]]:
    return [[it["start"], it["end"]] for it in found]


def rules_cases() -> list[dict]:
    """Probabilities that wander, and the stretches that silero's rules make of them."""
    rng = np.random.default_rng(7)
    cases = []
    for number in range(32):
        steps = rng.normal(0, 0.35, int(rng.integers(1, 120)))
        values = [round(float(p), 3) for p in 1 / (1 + np.exp(-4 * np.sin(np.cumsum(steps))))]
        rate = (16000, 8000)[number % 2]
        settings = RULES[number % 4]
        window = 512 if rate == 16000 else 256
        total = len(values) * window - int(rng.integers(0, window))
        found = get_speech_timestamps_from_probs(
            values, sampling_rate=rate, audio_length_samples=total, **settings
        )
        case = {"rate": rate, "total": total, "settings": settings}
        cases.append({**case, "probabilities": values, "spans": spans(found)})
    return cases


def signal_cases(model: torch.jit.ScriptModule) -> list[dict]:
    """A made-up signal, and the probability of speech in each of its windows."""
    cases = []
    for rate in (16000, 8000):
        signal = babble(rate)
        model.reset_states()
        window = 512 if rate == 16000 else 256
        padded = np.zeros(-(-len(signal) // window) * window, np.float32)
        padded[: len(signal)] = signal
        pieces = torch.from_numpy(padded).split(window)
        values = [round(model(piece, rate).item(), 6) for piece in pieces]
        cases.append({"rate": rate, "probabilities": values})
    return cases


def main() -> None:
    torch.set_num_threads(1)
    model = load_silero_vad()
    golden = {"rules": rules_cases(), "signals": signal_cases(model)}
    (HERE / "golden.json").write_text(json.dumps(golden) + "\n")
    lines = []
    for path in sorted(Path(sys.argv[1]).glob("*.flac")):
        samples, rate = soundfile.read(path, dtype="float32")
        assert rate == 16000
        found = get_speech_timestamps(torch.from_numpy(samples), model)
        lines.append(f"{path.stem} {sum(b - a for a, b in spans(found)) / rate:.4f}\n")
    (HERE / "librispeech_seconds").write_text("".join(lines))


if __name__ == "__main__":
    main()
