"""What a bundle is: model.json and its graphs, checked, and the onnxruntime sessions that run them.

In: a bundle directory. Out: `manifest.ModelInfo`, `sessions.Sessions`. Knows nothing of
tables or trials.
"""
