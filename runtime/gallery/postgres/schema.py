"""The tables of a gallery on a server: those of a file, and what many machines need besides.

`counters` has one row whose update every change begins with: its lock lets writers take turns, so
that numbers are seen in their order, and its number tells readers that something changed. `writes`
remembers changes by a word of the writer's own: who loses the connection in the middle of a commit
asks whether it happened, and does it again only if it did not.
"""

SCHEMA = (
    "CREATE TABLE settings(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE counters(one BOOLEAN PRIMARY KEY, change BIGINT NOT NULL, count BIGINT NOT NULL, "
    "speakers BIGINT NOT NULL, utterances BIGINT NOT NULL)",
    "CREATE TABLE writes(token TEXT PRIMARY KEY, moment TIMESTAMPTZ NOT NULL DEFAULT now())",
    "CREATE TABLE speakers(number BIGINT PRIMARY KEY, id TEXT NOT NULL UNIQUE, warnings TEXT, "
    "voiceprints BYTEA NOT NULL, way TEXT)",
    # Voiceprints do not compress; trying takes time.
    "ALTER TABLE speakers ALTER COLUMN voiceprints SET STORAGE EXTERNAL",
    "CREATE TABLE removals(step BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "number BIGINT NOT NULL)",
    "CREATE TABLE sums(number BIGINT PRIMARY KEY, crc BIGINT NOT NULL)",
    "CREATE TABLE placed(number BIGINT PRIMARY KEY, place TEXT NOT NULL)",
    "CREATE TABLE utterances(number BIGINT PRIMARY KEY, speaker TEXT NOT NULL, "
    "seconds DOUBLE PRECISION, norm DOUBLE PRECISION, moment DOUBLE PRECISION, session BIGINT, "
    "heard BIGINT NOT NULL, source TEXT NOT NULL, warnings TEXT, voiceprint BYTEA, "
    "embedding BYTEA, crc BIGINT NOT NULL)",
    "CREATE INDEX utterances_of ON utterances(speaker)",
    "CREATE TABLE tags(speaker TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, "
    "PRIMARY KEY (name, value, speaker))",
    "CREATE INDEX tags_of ON tags(speaker)",
    "CREATE TABLE origins(speaker TEXT PRIMARY KEY, number BIGINT NOT NULL)",
    "CREATE TABLE decisions(number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
    "moment DOUBLE PRECISION NOT NULL, kind TEXT NOT NULL, speaker TEXT NOT NULL, "
    "decision TEXT NOT NULL, llr DOUBLE PRECISION, threshold DOUBLE PRECISION, "
    "posterior DOUBLE PRECISION, prior DOUBLE PRECISION, cost_miss DOUBLE PRECISION, "
    "cost_fa DOUBLE PRECISION, seconds DOUBLE PRECISION, model TEXT NOT NULL)",
    "INSERT INTO counters VALUES (true, 0, 0, 0, 0)",
)

GRANTS = {
    "search": (
        'GRANT USAGE ON SCHEMA "{gallery}" TO "{role}"',
        'GRANT SELECT ON ALL TABLES IN SCHEMA "{gallery}" TO "{role}"',
        'GRANT INSERT ON "{gallery}".decisions TO "{role}"',
    ),
    "enrol": (
        'GRANT USAGE ON SCHEMA "{gallery}" TO "{role}"',
        'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "{gallery}" TO "{role}"',
    ),
}
"""What an account needs that may only search and verify, and one that may change speakers."""
