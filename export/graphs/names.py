"""Every name, version and size limit that the exported graphs share, in one place."""

# Opset 17 is understood by every onnxruntime since 1.12 and by its web and mobile builds.
OPSET = 17
IR_VERSION = 8

BACKEND, VOICEPRINT, COMPARE, PAIRS = "backend", "voiceprint", "compare", "pairs"
GRAPHS = (BACKEND, VOICEPRINT, COMPARE, PAIRS)
# One call for one verification, one probe against many, and a comparison in two steps for very many
# tiles; a bundle may come without these.
VERIFY, SEARCH, PREPARE, TILE = FURTHER = "verify", "search", "prepare", "tile"
NORMS, DISTANCES = "norms", "side_distances"

# Inputs and outputs; runtime/bundle/manifest.py reads the same words from model.json.
EMBEDDINGS, DURATIONS, GROUPS, VOICEPRINTS = "embeddings", "durations", "groups", "voiceprints"
NUM_UTTS = "num_utts"
ENROLL, TEST, LLRS, PREPARED = "enroll", "test", "llrs", "prepared"
ENROLL_PREFIX, TEST_PREFIX = "enroll_", "test_"

# What `groups` of voiceprint.onnx is when it is left out: every row is a voiceprint of its own.
OWN_GROUP = -1
