"""A gallery that many machines share: tables in a PostgreSQL database (`store.PostgresStore`).

In: `postgresql://...`. Out: a `storage.Store`, as of SQLite. psycopg 3 is imported when the first
gallery of a server is opened (extra `postgres`).
"""
