"""From a trained or foreign model to the ONNX bundle."""
