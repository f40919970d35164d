"""Galleries as tables that other tools read (`writing`), and tables as speakers (`reading`).

In: a gallery, or tables. Out: a folder, or speakers for Gallery.add_many. The folder has Kaldi's
tables, vectors as archives or Parquet, and lines of JSON for what Kaldi has no table of.
"""
