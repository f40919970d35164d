"""Galleries as tables that other tools read (`writing`), and tables as speakers (`reading`).

A folder with Kaldi's `utt2spk`, `spk2utt` and `utt2dur`, embeddings and voiceprints as archives or
Parquet, and lines of JSON for what Kaldi has no table of.
"""
