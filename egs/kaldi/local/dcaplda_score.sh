#!/usr/bin/env bash
# Scores trials in parallel jobs; the result is byte for byte that of one job.

usage="Usage: $0 [options] <bundle-dir> <enroll-scp> <test-scp> <trials> <out-dir>
e.g.: $0 --nj 8 --cmd \"\$train_cmd\" --durations exp/dcaplda/test_utt2dur \\
        exp/dcaplda/bundle exp/xv_test/xvector.scp exp/xv_test/xvector.scp data/test/trials exp/scores
Options:
  --nj 4                     number of jobs
  --cmd run.pl               how to run them (run.pl, queue.pl, slurm.pl, 'retry.pl slurm.pl')
  --num-threads 1            threads of a job
  --durations FILE           seconds of speech of both sides (local/dcaplda_durations.sh)
  --enroll-durations FILE    ... of one side
  --test-durations FILE
  --spk2utt FILE             enrolment models of several utterances
  --multi-enroll scores      or voiceprints
  --num-utts FILE            with an imported Kaldi model: utterances behind each enrolment vector
  --score-opts '...'         anything else for score-trials
Writes <out-dir>/scores: 'enroll test llr', in the order of the trials. Called again after a failure
it does the jobs that are missing."
set -euo pipefail

nj=4
cmd=run.pl
num_threads=1
durations=
enroll_durations=
test_durations=
spk2utt=
multi_enroll=
num_utts=
score_opts=
. "$(dirname "$0")/dcaplda_options.sh"
[ $# -eq 5 ] || { echo "$usage" >&2; exit 1; }
bundle=$1
enroll=$2
test=$3
trials=$4
dir=$5

mkdir -p "$dir/log"
options=("--threads=$num_threads")
for name in durations enroll_durations test_durations spk2utt multi_enroll num_utts; do
  if [ -n "${!name}" ]; then options+=("--$name=${!name}"); fi
done
# Unquoted on purpose: $cmd and $score_opts hold several words. A job whose part is there already,
# of these very inputs, is over at once.
$cmd --num-threads "$num_threads" "JOB=1:$nj" "$dir/log/score.JOB.log" \
  score-trials --part=JOB "--num-parts=$nj" "${options[@]}" $score_opts \
  "$bundle" "scp:$enroll" "scp:$test" "$trials" "$dir/scores.part.JOB"
parts=()
for ((j = 1; j <= nj; j++)); do parts+=("$dir/scores.part.$j"); done
merge-parts --print-args=false "${parts[@]}" "$dir/scores"
rm -f "$dir"/scores.part.* "$dir"/.scores.part.*.stamp
echo "$0: $(wc -l < "$dir/scores") scores are in $dir/scores"
