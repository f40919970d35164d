"""Sound as samples: decoded, one channel, at the rate that is wanted.

In: files, bytes, arrays. Out: float32 samples between -1 and 1 and their rate; one-line errors.
"""
