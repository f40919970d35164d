"""Formats of embeddings besides Kaldi's: npy, npz, HDF5, Parquet, each a module that registers it.

In: the name of a file or folder. Out: ids and one row of floats each, or one line that says what is
wrong. A module put here is found by its presence; nothing is unpickled, and no size that a header
announces is allocated before it was compared with the file.
"""
