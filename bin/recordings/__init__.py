"""Tables about recordings, for the tools that compare utterances within one.

In: options and tables as the user named them. Out: utterances by recording, their spans and the
numbers of their speakers.
"""
