"""What a gallery is in a database: rows that every kind shares (`tables`), and SQLite (`store`).

In: bytes and words. Out: the same, as of one moment, or one line of error. `storage.Store` is what
a gallery asks of any database.
"""
