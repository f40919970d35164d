"""What the data decide: facts about them, settings chosen from these, and parts held out in turn.

In: `TrainingData` and a recipe with "auto" in it. Out: `choose.Resolved` before training, and after
it `turns.HeldOutResult`: what models trained without a part reach on that part.
"""
