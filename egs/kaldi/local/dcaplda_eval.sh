#!/usr/bin/env bash
# EER, Cllr and DCF of a score file, with an HTML report.

usage="Usage: $0 [options] <trials> <scores> <out-dir>
e.g.: $0 --utt2dur exp/dcaplda/test_utt2dur data/test/trials exp/scores/scores exp/scores
Options:
  --prior 0.01,0.05   priors of a target trial
  --utt2spk FILE      speakers: adds confidence intervals
  --utt2dur FILE      seconds of speech: adds results per duration
  --spk2utt FILE      enrolment models of several utterances
Writes <out-dir>/results.txt and <out-dir>/report.html."
set -euo pipefail

prior=0.01,0.05
utt2spk=
utt2dur=
spk2utt=
. "$(dirname "$0")/dcaplda_options.sh"
[ $# -eq 3 ] || { echo "$usage" >&2; exit 1; }

options=("--prior=$prior")
for name in utt2spk utt2dur spk2utt; do
  if [ -n "${!name}" ]; then options+=("--$name=${!name}"); fi
done
mkdir -p "$3"
eval-scores "${options[@]}" "--report=$3/report.html" "$1" "$2" | tee "$3/results.txt"
