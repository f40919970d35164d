"""The first hour: enrol somebody from three recordings, verify a fourth, adapt to the microphone.

    python first_hour.py extractor.onnx exp/backend/bundle ann1.wav ann2.wav ann3.wav who.wav \
        --unlabelled=recordings-of-anybody

The bundle tells how the extractor is fed; one that does not needs --kind (docs/audio.md).
"""

import argparse
from pathlib import Path

import numpy as np

from dcaplda.audio import AudioError, Extractor
from dcaplda.runtime import Backend, Speaker


def embeddings(extractor: Extractor, files: list[Path]) -> tuple[np.ndarray, list[float]]:
    """Embeddings and seconds of speech of files; one that cannot be used is told and left out."""
    found = []
    for file in files:
        try:
            found.append(extractor.from_file(file))
        except AudioError as error:
            print(f"left out: {error}")
    return np.array([it.embedding for it in found]), [it.seconds for it in found]


def verify(backend: Backend, ann: Speaker, embedding: np.ndarray, seconds: float) -> None:
    """Is it her? Here both answers are as likely, and both errors cost the same."""
    answer = backend.verify(ann, embedding, seconds, prior=0.5, cost_miss=1.0, cost_fa=1.0)
    print(f"LLR {answer.llr:.2f}, threshold {answer.threshold:.2f}, accept: {answer.accept}")
    print("".join(f"warning: {warning}\n" for warning in answer.warnings), end="")


def main(told: argparse.Namespace) -> None:
    """Enrol, verify, adapt, verify again."""
    like = "" if told.kind else told.bundle
    extractor = Extractor.load(told.extractor, like=like, kind=told.kind)
    backend = Backend.load(told.bundle, extractor=extractor)
    enrolled = embeddings(extractor, told.files[:-1])
    unknown = extractor.from_file(told.files[-1])
    print(f"{sum(enrolled[1]):.1f} s of speech enrolled, {unknown.seconds:.1f} s to be verified")
    verify(backend, backend.enroll(*enrolled), *unknown)
    if told.unlabelled:
        files = sorted(path for path in Path(told.unlabelled).rglob("*") if path.is_file())
        pool = embeddings(extractor, files)
        office = backend.adapted(*pool)
        print(f"adapted to the place of {len(pool[1])} recordings that nobody labelled")
        verify(office, office.enroll(*enrolled), *unknown)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extractor", help="ONNX file")
    parser.add_argument("bundle")
    parser.add_argument("files", nargs="+", type=Path, help="of the speaker; the last is the test")
    parser.add_argument("--unlabelled", help="folder of recordings of the same microphone")
    parser.add_argument("--kind", default="", help="of an extractor that the bundle does not tell")
    main(parser.parse_args())
