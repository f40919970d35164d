"""Trial lists and held-out people for an evaluation of one's own.

In: a Kaldi data directory. Out: `lists.Part`, the models and trials of two domains; `split`, the
people of each side; files as score-trials and eval-scores read them. Standard library only.
"""
