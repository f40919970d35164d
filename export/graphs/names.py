"""Every name, version and size limit that the exported graphs share, in one place."""

# Opset 17 is understood by every onnxruntime since 1.12 and by its web and mobile builds.
OPSET = 17
IR_VERSION = 8

BACKEND, VOICEPRINT, COMPARE, PAIRS = "backend", "voiceprint", "compare", "pairs"
GRAPHS = (BACKEND, VOICEPRINT, COMPARE, PAIRS)
# One call for one verification, one probe against many, groups of utterances, and a comparison in
# two steps for very many tiles; a bundle may come without these.
VERIFY, SEARCH, AVERAGE = "verify", "search", "average"
PREPARE, TILE = "prepare", "tile"
FURTHER = (VERIFY, SEARCH, AVERAGE, PREPARE, TILE)
NORMS, DISTANCES = "norms", "side_distances"

# Inputs and outputs; runtime/bundle/manifest.py reads the same words from model.json.
EMBEDDINGS, DURATIONS, GROUPS, VOICEPRINTS = "embeddings", "durations", "groups", "voiceprints"
NUM_UTTS = "num_utts"
ENROLL, TEST, LLRS, PREPARED = "enroll", "test", "llrs", "prepared"
ENROLL_PREFIX, TEST_PREFIX = "enroll_", "test_"

DOCS = {
    EMBEDDINGS: "speaker embeddings as extracted, one a row",
    DURATIONS: "seconds of speech behind each embedding",
    GROUPS: "number of each row's group, from 0, none left out; rows of one number are averaged",
    NUM_UTTS: "number of utterances that were averaged into each embedding",
    VOICEPRINTS: "voiceprints, one a row; comparable only within one model",
    ENROLL: "voiceprints of the enrolled side, one a row",
    TEST: "voiceprints of the test side, one a row",
    PREPARED: "enrolled voiceprints made ready for many tiles, one a row",
    LLRS: "log-likelihood ratios, natural logarithm: one speaker against two",
    NORMS: "Euclidean length of the embedding",
    DISTANCES: "Mahalanobis distance of the side-information from the training mean",
}
"""What each input and output is, for those who open a graph in a viewer."""


def doc(name: str) -> str:
    """Of an input or output; the two sides of backend.onnx have a prefix each."""
    for prefix, side in ((ENROLL_PREFIX, "enrolment: "), (TEST_PREFIX, "test: ")):
        if name.startswith(prefix):
            return side + DOCS[name.removeprefix(prefix)]
    return DOCS[name]
