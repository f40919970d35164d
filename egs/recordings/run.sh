#!/usr/bin/env bash
# From Kaldi directories to a calibrated backend, a table and an HTML report.
#
#   egs/recordings/run.sh data/mine exp/mine                          one folder; a fifth of its people judge
#   egs/recordings/run.sh --data=my-data.toml <data-root> <exp-dir>   folders and sets that a file names
#   egs/recordings/run.sh --compare=true <data-root> <exp-dir>        eight systems instead (compare.sh)
#
# Stages: 0 tables, 1 train, 2 score, 3 evaluate and report. Without --data, <data-root> is a data
# directory, or has the folders of conf/data.toml. Every setting is chosen from the data unless
# --train=recipe.toml says otherwise. What is trained is not trained again. See docs/recipe.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

data=                           # see conf/data.toml
train=                          # recipe of train-backend
split=0.2                       # share of the people to hold out where no sets are named; 0: none
seed=0                          # of who is held out, and of the trials
bootstrap=200                   # replicates for confidence intervals
stage=0
stop_stage=3
compare=false

die() { echo "run.sh: ERROR: $*" >&2; exit 1; }
arguments=() others=()
for argument in "$@"; do
  case $argument in
    --help | -h) sed -n '2,10p' "${BASH_SOURCE[0]}" | cut -c3-; exit 0 ;;
    --compare=true | --compare=false) compare=${argument#*=} ;;
    --compare*) die "$argument: expected --compare=true or --compare=false" ;;
    --*) others+=("$argument") ;;
    *) arguments+=("$argument") ;;
  esac
done
[ $compare = false ] || exec "$here/compare.sh" "${others[@]}" "${arguments[@]}"
for option in "${others[@]}"; do
  name=${option%%=*}; name=${name#--}; name=${name//-/_}
  case " data train split seed bootstrap stage stop_stage " in
    *" $name "*) case $option in *=*) printf -v "$name" '%s' "${option#*=}" ;; *) die "$option needs a value: $option=..." ;; esac ;;
    *) die "no option '${option%%=*}'; see --help" ;;
  esac
done
[ ${#arguments[@]} -eq 2 ] || die "expected <data-root> <exp-dir>; see --help"
root=${arguments[0]} exp=${arguments[1]}
[ -d "$root" ] || die "$root: no such directory"
[ -z "$train" ] || [ -f "$train" ] || die "--train=$train: no such file"
if [ -z "$data" ]; then
  if [ -f "$root/utt2spk" ]; then data=-; else data=$here/conf/data.toml; fi
fi
start=$SECONDS
say() { echo "run.sh: [$((SECONDS - start)) s] $*" >&2; }
wanted() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }
. "$here/local/scoring.sh"

mkdir -p "$exp"
if wanted 0; then
  say "stage 0: tables of $root"
  rm -rf "$exp/data" "$exp/trials"
  "$python" "$here/local/tables.py" prepare "$data" "${train:-$here/conf/train.toml}" "$here/conf/paper.toml" "$root" "$exp"
  if [ ! -s "$exp/sets.tsv" ] && [ "$split" != 0 ]; then
    say "no sets are named: $split of the people are held out to judge"
    [ -f "$exp/data/train/utt2sess" ] || [ -f "$exp/data/train/segments" ] ||
      say "WARNING: no utt2sess: cuts of one recording are compared as if they were two, and the figures may be too good"
    mv "$exp/data/train" "$exp/data/all"
    make-trials --print-args=false --split="$split" --seed="$seed" "$exp/data/all" "$exp/data"
    "$python" "$here/local/tables.py" held-out "$exp"
  fi
fi

if wanted 1; then
  say "stage 1: training"
  inputs=$(trained_on ${train:+"$train"})
  [ ! -d "$exp/backend" ] || [ "$inputs" = "$(cat "$exp/backend.inputs")" ] ||
    die "$exp/backend was trained on other tables or another recipe; remove it to train anew"
  echo "$inputs" > "$exp/backend.inputs"
  train-backend --resume ${train:+--config="$train"} "$exp/data/train" "scp:$exp/data/train/xvector.scp" "$exp/backend"
fi

if [ ! -s "$exp/sets.tsv" ]; then
  say "no sets to score; what people held out in training say is in $exp/backend/summary.txt"
  exit 0
fi
if wanted 2; then
  say "stage 2: scoring $(cut -f2 "$exp/sets.tsv" | paste -sd' ')"
  rm -rf "$exp/scores/backend" "$exp/scores/backend.log"
  score_sets "$exp/backend/bundle" "$exp/scores/backend"
  by_domain "$exp/scores/backend"
fi

if wanted 3; then
  say "stage 3: metrics and report"
  plan table "$exp" backend
  eval-scores --print-args=false --bootstrap="$bootstrap" --table="$exp/sets.toml" --title="Recordings" \
    --json="$exp/results.json" --report="$exp/report.html" > "$exp/results.txt" 2> "$exp/evaluate.log" ||
    { tail -1 "$exp/evaluate.log" >&2; exit 1; }
  plan summary "$exp" | tee "$exp/summary.md"
  say "done: the backend is $exp/backend/bundle; $exp/summary.md (means), $exp/results.txt (every domain), $exp/report.html"
fi
