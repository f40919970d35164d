"""The command-line tools, one module each; `options` gives them Kaldi's manners."""
