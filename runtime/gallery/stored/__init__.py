"""A gallery's voiceprints once more, in one piece: the file beside the database that opens at once.

In: speakers of one moment of a database. Out: their rows, read or mapped, each with a sum that
tells whether it is as it was written. The database stays the truth: whatever does not fit it is
made again.
"""
