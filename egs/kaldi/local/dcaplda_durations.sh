#!/usr/bin/env bash
# Seconds of speech of a Kaldi data directory, from the best source that it has.

usage="Usage: $0 [--frame-shift 0.01] <data-dir> <utt2dur-out>
Uses vad.scp (speech frames only; the right choice where the extractor drops silence), else
utt2num_frames, else segments, else the directory's own utt2dur."
set -euo pipefail

frame_shift=0.01
. "$(dirname "$0")/dcaplda_options.sh"
[ $# -eq 2 ] || { echo "$usage" >&2; exit 1; }
data=$1
out=$2

if [ -s "$data/vad.scp" ]; then
  compute-durations --vad="scp:$data/vad.scp" --frame-shift="$frame_shift" "$out"
elif [ -s "$data/utt2num_frames" ]; then
  compute-durations --num-frames="$data/utt2num_frames" --frame-shift="$frame_shift" "$out"
elif [ -s "$data/segments" ]; then
  compute-durations --segments="$data/segments" "$out"
elif [ -s "$data/utt2dur" ]; then
  cp "$data/utt2dur" "$out"
else
  echo "$0: $data has none of vad.scp, utt2num_frames, segments and utt2dur" >&2
  exit 1
fi
