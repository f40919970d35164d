"""Trial keys, score files and side tables, read at any length and joined by ids.

In: files. Out: `joining.Joined`, the scores of target and nontarget trials and their conditions.
"""
