#!/usr/bin/env bash
# Trains a backend on a Kaldi data directory, to a bundle.

usage="Usage: $0 [options] <data-dir> <xvector-scp> <exp-dir>
e.g.: $0 --cmd \"\$train_cmd\" data/train exp/xvectors_train/xvector.scp exp/dcaplda
Options:
  --cmd run.pl         how to run a job (run.pl, queue.pl, slurm.pl, 'retry.pl slurm.pl')
  --config FILE        recipe (TOML), see conf/dcaplda.toml; if not given, all is chosen from the data
  --variant d-plda-dsd one of plda, d-plda, with -dd, -sd, -dsd or nothing
  --seeds 0-3          train with several seeds and keep the best
  --nj 4               jobs that share the seeds
  --num-threads 1      threads of each of these jobs
  --frame-shift 0.01   seconds per frame, for durations
Writes <exp-dir>/bundle, which local/dcaplda_score.sh takes. Called again after a failure it goes on
with the seeds that are missing."
set -euo pipefail

cmd=run.pl
config=
variant=
seeds=
nj=4
num_threads=1
frame_shift=0.01
here=$(dirname "$0")
. "$here/dcaplda_options.sh"
[ $# -eq 3 ] || { echo "$usage" >&2; exit 1; }
data=$1
xvectors=$2
dir=$3

# A data directory of its own: the utt2dur of $data, if any, may count silence.
mkdir -p "$dir/data" "$dir/log"
for name in utt2spk utt2sess utt2dom segments; do
  rm -f "$dir/data/$name"
  if [ -f "$data/$name" ]; then cp "$data/$name" "$dir/data/"; fi
done
"$here/dcaplda_durations.sh" --frame-shift "$frame_shift" "$data" "$dir/data/utt2dur"

options=()
[ -z "$config" ] || options+=("--config=$config")
[ -z "$variant" ] || options+=("--variant=$variant")
# $cmd may hold options of its own, as in Kaldi's cmd.sh.
if [ -n "$seeds" ]; then
  $cmd --num-threads "$num_threads" "JOB=1:$nj" "$dir/log/train.JOB.log" \
    train-backend --part=JOB "--num-parts=$nj" "--seeds=$seeds" "--threads=$num_threads" \
    ${options[@]+"${options[@]}"} "$dir/data" "scp:$xvectors" "$dir"
  $cmd "$dir/log/train.log" train-backend --select "--seeds=$seeds" "$dir"
else
  $cmd "$dir/log/train.log" \
    train-backend ${options[@]+"${options[@]}"} "$dir/data" "scp:$xvectors" "$dir"
fi
[ -d "$dir/bundle" ] || { echo "$0: there is no $dir/bundle; $dir/log/train.log says why" >&2; exit 1; }
tail -n 1 "$dir/summary.txt"
echo "$0: the model is in $dir/bundle"
