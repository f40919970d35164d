"""Names in place of a diarizer's labels: RTTM and an embedding per label in, RTTM with names out.

    python name_speakers.py exp/bundle people.db meeting.rttm meeting.npz named.rttm --prior=0.8

The embeddings are an .npz file with an array (D,) for each label, or JSON {label: [numbers]}.
Labels of several recordings in one file are written `recording/label`. Who is nobody in the gallery
keeps the label. Seconds of speech are those of the RTTM lines.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from dcaplda.runtime import Backend, DcapldaError, Gallery, InputError, name_speakers
from dcaplda.runtime.people.rttm import read_rttm, speech_of, write_rttm
from dcaplda.runtime.tables.formats.named import read_named
from dcaplda.runtime.tables.specifiers import writing
from dcaplda.runtime.values import as_word


def embeddings_of(path: str, keys: list[str]) -> dict[str, np.ndarray]:
    """An embedding for each key (`recording/label` or `label`) that the file has."""
    wanted = {form for key in keys for form in (key, key.split("/", 1)[1])}
    if path.endswith(".json"):
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            found = {key: np.asarray(content[key], np.float64) for key in wanted if key in content}
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path}: cannot be read ({error})") from None
    else:
        found = read_named(path, wanted)
    several = len({key.split("/", 1)[0] for key in keys}) > 1
    for key in keys if several else []:
        label = key.split("/", 1)[1]
        if key not in found and label in found:
            # SPEAKER_00 of one recording is not that of the next.
            raise InputError(f"{path}: '{label}' of which recording? Call it '{key}'")
    return {key: found.get(key, found.get(key.split("/", 1)[1])) for key in keys}


def main() -> int:
    """Read, name, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("bundle", "gallery", "rttm", "embeddings", "out"):
        parser.add_argument(name)
    parser.add_argument("--prior", type=float, default=0.5, help="that a speaker is in the gallery")
    parser.add_argument("--cost-fa", type=float, default=1.0, help="of a wrong name")
    arguments = parser.parse_args()
    try:
        turns = read_rttm(arguments.rttm)
        speech = speech_of(turns)
        keys = [f"{recording}/{label}" for recording, own in speech.items() for label in own]
        vectors = embeddings_of(arguments.embeddings, keys)
        missing = [key for key in keys if vectors[key] is None]
        if missing:
            raise InputError(f"{arguments.embeddings}: no embedding of '{missing[0]}'")
        backend = Backend.load(arguments.bundle)
        names = {}
        with Gallery.open(arguments.gallery, backend, create=False) as gallery:
            for recording, own in speech.items():
                heard = {x: (vectors[f"{recording}/{x}"], own[x]) for x in own}
                found = name_speakers(
                    gallery, heard, prior=arguments.prior, cost_fa=arguments.cost_fa
                )
                for label, it in found.items():
                    names[recording, label] = as_word(it.speaker) if it.speaker else label
                    who = it.speaker or f"nobody (likeliest of the gallery: LLR {it.llr:.2f})"
                    told = f"LLR {it.llr:.2f}" if it.speaker else ""
                    print(f"{recording} {label}: {who} {told}", *it.warnings, file=sys.stderr)
        with writing(arguments.out) as stream:
            write_rttm((t._replace(speaker=names[t.recording, t.speaker]) for t in turns), stream)
    except DcapldaError as error:
        print(f"name_speakers.py: ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
