"""The arithmetic of the model as ONNX graphs.

In: a torch model, simplified by `algebra`. Out: serialized graphs (`bundle.build_graphs`).
"""
