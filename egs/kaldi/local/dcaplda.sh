#!/usr/bin/env bash
# Everything from x-vectors to results: call it in place of the LDA, PLDA and scoring stages.

usage="Usage: $0 [options] <train-data> <train-xvector-dir> <test-data> <test-xvector-dir> <trials> <exp-dir>
e.g.: $0 --nj 8 --cmd \"\$train_cmd\" data/train exp/xvectors_train \\
        data/test exp/xvectors_test data/test/trials exp/dcaplda
Options:
  --stage 0            0 train, 1 durations of the test set, 2 score, 3 evaluate
  --nj 4               jobs for scoring, and for seeds
  --cmd run.pl         how to run a job (run.pl, queue.pl, slurm.pl, 'retry.pl slurm.pl')
  --config FILE        training recipe, see conf/dcaplda.toml; if not given, all is chosen from the data
  --variant d-plda-dsd
  --seeds 0-3          train with several seeds and keep the best
  --spk2utt FILE       enrolment models of several test-set utterances
Both xvector directories hold an xvector.scp, as extract_xvectors.sh makes it."
set -euo pipefail

stage=0
nj=4
cmd=run.pl
config=
variant=
seeds=
spk2utt=
here=$(dirname "$0")
. "$here/dcaplda_options.sh"
[ $# -eq 6 ] || { echo "$usage" >&2; exit 1; }
train_data=$1
train_xvectors=$2
test_data=$3
test_xvectors=$4
trials=$5
dir=$6

if [ "$stage" -le 0 ]; then
  "$here/dcaplda_train.sh" --cmd "$cmd" --config "$config" --variant "$variant" \
    --seeds "$seeds" --nj "$nj" \
    "$train_data" "$train_xvectors/xvector.scp" "$dir"
fi
if [ "$stage" -le 1 ]; then
  "$here/dcaplda_durations.sh" "$test_data" "$dir/test_utt2dur"
fi
if [ "$stage" -le 2 ]; then
  "$here/dcaplda_score.sh" --nj "$nj" --cmd "$cmd" --spk2utt "$spk2utt" \
    --durations "$dir/test_utt2dur" \
    "$dir/bundle" "$test_xvectors/xvector.scp" "$test_xvectors/xvector.scp" "$trials" "$dir/scores"
fi
if [ "$stage" -le 3 ]; then
  "$here/dcaplda_eval.sh" --spk2utt "$spk2utt" --utt2dur "$dir/test_utt2dur" \
    "$trials" "$dir/scores/scores" "$dir/scores"
fi
