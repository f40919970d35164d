"""An extractor's ONNX graph: what it takes, how that is made from samples, and its embeddings.

In: an ONNX file, what it says of itself and what the user adds. Out: embeddings of samples.
"""
