"""Enrolled speakers that survive a crash (`speakers.Gallery`) and the search among them.

In: voiceprints of a `Backend`. Out: ranked matches and identifications. `database/` and `postgres/`
keep them.
"""
