"""The validation of one system, for those who have to rely on its LLRs: courts, auditors.

In: scores joined with their trials and tables. Out: a page in plain words and the same as JSON,
with the range of LLRs that the test supports, what was tested, what was not, and how to repeat it.
"""
