"""Models of other programs: the paper authors' checkpoints, Kaldi's files, plain cosine.

In: foreign files, read without running anything in them. Out: a model of ours, or a bundle. A new
importer is a module here and a choice in `bin/import_model.py`.
"""
