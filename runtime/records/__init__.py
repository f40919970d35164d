"""What products hold in their hands: speakers, their utterances, answers; short when printed.

In: values that others computed. Out: frozen records, without a way back to the model.
"""
