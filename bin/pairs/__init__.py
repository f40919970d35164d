"""What score-pairs reads and writes.

In: names of tables, and kept pairs. Out: how to compare a tile of their utterances (`tables`),
and the pairs as a file (`output`).
"""
