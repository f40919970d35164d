"""Parts of a long job that any scheduler may run: what is finished, of what, and put together.

In: the names of inputs and the files of parts. Out: `digests` of inputs, `stamps.Work` that tells
one job from another, a `Stamp` beside every finished part, and `merging`, which takes all or none.
"""
