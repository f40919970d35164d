"""All pairs of one or two tables without a list of trials: tiles in, kept pairs out.

In: voiceprints, and how to compare a tile of them. Out: every pair, those from an LLR on, or the
best of each row (`scan.kept_pairs`), as a Parquet file or Kaldi's lines (`files`). `grid` cuts the
work into tiles that are the same however many parts there are: parts together equal one run.
"""
