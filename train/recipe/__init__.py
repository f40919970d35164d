"""The recipe of a run: its sections with their defaults, and the TOML file that holds them.

In: a recipe's file and settings of the command line. Out: `sections.TrainingConfig`. A new setting
is a field of a section; it is read, checked, saved and compared from there.
"""
