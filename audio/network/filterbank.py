"""Samples to log mel filters, by kaldi-native-fbank, and their normalization."""

import kaldi_native_fbank as knf
import numpy as np

from dcaplda.audio.network.settings import MEAN, MEAN_VARIANCE, Features
from dcaplda.audio.signal.samples import Float32


class Filterbank:
    """Frames (T, bins) of samples at one rate; safe to use from many threads."""

    def __init__(self, features: Features, sample_rate: int) -> None:
        options = knf.FbankOptions()
        frame, mel = options.frame_opts, options.mel_opts
        frame.samp_freq = sample_rate
        frame.dither = 0.0  # equal samples give equal embeddings
        frame.window_type = features.window
        frame.frame_length_ms = features.frame_length
        frame.frame_shift_ms = features.frame_shift
        frame.remove_dc_offset = not features.librosa
        mel.num_bins = features.bins
        mel.low_freq = features.low_freq
        mel.is_librosa = features.librosa
        self._options = options
        self._rate = sample_rate
        self.bins = features.bins

    def __call__(self, samples: Float32) -> Float32:
        """All frames that fit into the samples."""
        bank = knf.OnlineFbank(self._options)
        bank.accept_waveform(self._rate, samples)
        bank.input_finished()
        frames = [bank.get_frame(number) for number in range(bank.num_frames_ready)]
        return np.stack(frames) if frames else np.zeros((0, self.bins), np.float32)


def normalized(frames: Float32, how: str) -> Float32:
    """Frames (T, bins) without their mean, or also with their deviation divided out."""
    if how not in (MEAN, MEAN_VARIANCE) or not len(frames):
        return frames
    frames = frames - frames.mean(axis=0, dtype=np.float64).astype(np.float32)
    if how == MEAN_VARIANCE:
        frames = frames / (frames.std(axis=0, dtype=np.float64).astype(np.float32) + 1e-5)
    return frames
