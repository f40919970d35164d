"""Enrolled speakers that survive a crash (`speakers.Gallery`) and the search among them.

In: voiceprints of a `Backend`. Out: ranked matches and identifications. A new kind of storage goes
beside `store.py`.
"""
