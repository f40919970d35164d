#!/usr/bin/env bash
# Eight systems, S-norm, AS-norm and cosine side by side: what run.sh --compare=true calls.
#
#   egs/recordings/compare.sh <data-root> <exp-dir>
#   egs/recordings/compare.sh --data=my-data.toml <data-root> <exp-dir>   your own folders
#   egs/recordings/compare.sh --stage=3 <data-root> <exp-dir>             go on from a stage
#
# Stages: 0 prepare, 1 choose dimensions, 2 train and export, 3 score, 4 evaluate and report.
# The folders are named in conf/data.toml, the training in conf/train.toml; [[dev]] sets choose.
# The backend that run.sh trained in <exp-dir> is compared too. What is done already is not done
# again; remove <exp-dir>/<part> to repeat it. See docs/recipe.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

data=$here/conf/data.toml
train=$here/conf/train.toml
paper=$here/conf/paper.toml     # the system `paper`: the paper's own training, to compare with
stage=0
stop_stage=4
jobs=2                          # runs at a time, one thread each
seeds=0-1                       # of training; plain PLDA has nothing random
lda_dims="40 60 80 100 120"     # candidates; those above the number of speakers are left out
side_dims="2 4 8"
top_ns="50 100 200"             # of AS-norm
systems=                        # default: all of these, and run.sh's own where it is there
all="paper plda plda-dd d-plda d-plda-dd d-plda-sd d-plda-dsd plda-snorm plda-asnorm cosine"
bootstrap=200                   # replicates for confidence intervals

known="data train paper stage stop_stage jobs seeds lda_dims side_dims top_ns systems bootstrap"
. "$here/local/options.sh"
wanted() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }
. "$here/local/scoring.sh"

# Runs of train-backend, a few at a time; each is skipped if it has finished.
train_run() {  # <run-dir> <options of train-backend ...>
  local run=$1 recipe=train; shift
  case $run in */paper/*) recipe=paper ;; esac
  [ ! -f "$run/training_summary.json" ] || return 0
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  (
    mkdir -p "$(dirname "$run")"
    # numpy's threads too: two runs with two threads each would wait for one another.
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
    train-backend --config="$exp/conf/$recipe.toml" --threads=1 --resume --export=false "$@" \
      "$exp/data/train" "scp:$exp/data/train/xvector.scp" "$run" > "$run.log" 2>&1 ||
      { echo "compare.sh: ERROR: $(tail -1 "$run.log"); see $run.log" >&2; touch "$exp/failed"; }
  ) &
}
finish_runs() { wait; [ ! -e "$exp/failed" ] || exit 1; }

mkdir -p "$exp"; rm -f "$exp/failed"
if wanted 0; then
  say "stage 0: tables of $data"
  rm -rf "$exp/data" "$exp/trials"
  "$python" "$here/local/tables.py" prepare "$data" "$train" "$paper" "$root" "$exp"
fi
grep -q '^dev' "$exp/sets.tsv" ||
  die "$data: systems are chosen and calibrated on [[dev]] sets; name at least one"
if [ -z "$systems" ]; then
  systems=$all
  # Fair only where both had the same people to learn from.
  if [ -d "$exp/backend/bundle" ] && [ "$(trained_on)" = "$(cat "$exp/backend.inputs")" ]; then systems="backend $all"; fi
fi
cohort=()
[ ! -d "$exp/data/cohort" ] ||
  cohort=(--cohort="scp:$exp/data/cohort/xvector.scp" --cohort-durations="$exp/data/cohort/utt2dur")
if [ ${#cohort[@]} -eq 0 ]; then
  systems=$(for system in $systems; do case $system in *norm) ;; *) echo "$system" ;; esac; done)
fi
say "systems:" $systems

if wanted 1; then
  people=$(cut -d' ' -f2 "$exp/data/train/utt2spk" | sort -u | wc -l)
  say "stage 1: LDA dimension for $people people, by the development loss of frozen PLDA"
  runs=()
  for dim in $lda_dims; do
    [ "$dim" -lt "$people" ] || continue
    train_run "$exp/tune/lda-$dim" --variant=plda-dd --set=model.lda_dim="$dim" \
      --set=stage1.steps=0 --set=stage2.steps=0 --set=stage3.steps=0
    runs+=("$exp/tune/lda-$dim")
  done
  finish_runs
  best=$(plan best "${runs[@]}"); echo "${best#lda-}" > "$exp/tune/lda_dim"
  say "lda_dim = $(cat "$exp/tune/lda_dim"); now the size of z, with the whole model"
  runs=()
  for dim in $side_dims; do
    train_run "$exp/tune/z-$dim" --variant=d-plda-dsd --set=model.side_info_dim="$dim" \
      --set=model.lda_dim="$(cat "$exp/tune/lda_dim")"
    runs+=("$exp/tune/z-$dim")
  done
  finish_runs
  best=$(plan best "${runs[@]}"); echo "${best#z-}" > "$exp/tune/side_info_dim"
  say "side_info_dim = $(cat "$exp/tune/side_info_dim")"
fi

trained() { for s in $systems; do case $s in *norm) echo plda ;; cosine | backend) ;; *) echo "$s" ;; esac; done | sort -u; }
bundle_of() { if [ "$1" = backend ]; then echo "$exp/backend/bundle"; else echo "$exp/runs/$1/bundle"; fi; }
if wanted 2; then
  say "stage 2: training and export of" $(trained)
  first=${seeds%%-*} last=${seeds##*-}
  for system in $(trained); do
    for seed in $(seq "$first" "$last"); do
      [ "$system" != plda ] || [ "$seed" = "$first" ] || continue
      own=(--variant="$system" --set=model.side_info_dim="$(cat "$exp/tune/side_info_dim")")
      [ "$system" != paper ] || own=()
      train_run "$exp/runs/$system/seed-$seed" --seed="$seed" "${own[@]}" \
        --set=model.lda_dim="$(cat "$exp/tune/lda_dim")"
    done
  done
  finish_runs
  for system in $(trained); do
    train-backend --select "$exp/runs/$system" > "$exp/runs/$system/select.log" 2>&1 ||
      { tail -1 "$exp/runs/$system/select.log" >&2; exit 1; }
    say "$system: $(grep -o 'seed [0-9]* is selected' "$exp/runs/$system/select.log")"
  done
  case " $(echo $systems) " in *" cosine "*)
    import-model --print-args=false --from=cosine "scp:$exp/data/train/xvector.scp" "$exp/runs/cosine/bundle" ;;
  esac
fi

calibrate() {  # <raw-dir> <out-dir>: one affine map, fitted on the calibration sets together
  local raw=$1 out=$2
  mkdir -p "$out"
  for name in $(cat "$exp/calibration.sets"); do
    cat "$exp/trials/$name"/* >> "$raw.trials.tmp"; cat "$raw/$name" >> "$raw.scores.tmp"
  done
  calibrate-scores --print-args=false --prior=0.1 "$raw.trials.tmp" "$raw.scores.tmp" "$out/calibration.json" 2>> "$out.log"
  rm "$raw.trials.tmp" "$raw.scores.tmp"
  cut -f2 "$exp/sets.tsv" | while read -r name; do
    calibrate-scores --print-args=false --apply="$out/calibration.json" "$raw/$name" "$out/$name" 2>> "$out.log"
  done
}

if wanted 3; then
  say "stage 3: scoring"
  mkdir -p "$exp/scores"
  for system in $systems; do
    out=$exp/scores/$system
    rm -rf "$out" "$out.raw" "$out.log"
    case $system in
      plda-snorm) score_sets "$(bundle_of plda)" "$out.raw" --score-norm=s "${cohort[@]}"; calibrate "$out.raw" "$out" ;;
      plda-asnorm)
        for n in $top_ns; do
          [ "$n" -le "$(wc -l < "$exp/data/cohort/xvector.scp")" ] || continue
          rm -rf "$out.$n.raw" "$out.$n"
          score_sets "$(bundle_of plda)" "$out.$n.raw" --score-norm=as --top-n="$n" "${cohort[@]}"
          calibrate "$out.$n.raw" "$out.$n"
          by_domain "$out.$n"
        done ;;
      cosine) score_sets "$(bundle_of cosine)" "$out.raw"; calibrate "$out.raw" "$out" ;;
      *) score_sets "$(bundle_of "$system")" "$out" ;;
    esac
    if [ "$system" = plda-asnorm ]; then
      # The size of the top list is chosen by the mean over all development domains.
      plan table "$exp" $(for n in $top_ns; do [ ! -d "$out.$n" ] || echo "plda-asnorm.$n"; done)
      eval-scores --print-args=false --bootstrap=0 --table="$exp/sets.toml" --json="$exp/asnorm.json" > /dev/null
      n=$(plan least "$exp" "$exp/asnorm.json"); n=${n##*.}
      say "AS-norm takes the top $n of the cohort"
      mv "$out.$n" "$out"
    else
      by_domain "$out"
    fi
    say "scored $system"
  done
fi

if wanted 4; then
  say "stage 4: metrics and report"
  plan table "$exp" $systems
  baseline=
  for system in d-plda-dsd paper; do
    case " $(echo $systems) " in *" $system "*) baseline=$system ;; esac
  done
  eval-scores --print-args=false --bootstrap="$bootstrap" --table="$exp/sets.toml" \
    --baseline="$baseline" --json="$exp/results.json" --csv="$exp/results.csv" --title="Recordings" \
    --report="$exp/report.html" > "$exp/results.txt" 2> "$exp/evaluate.log" ||
    { tail -1 "$exp/evaluate.log" >&2; exit 1; }
  plan summary "$exp" | tee "$exp/summary.md"
  say "done: $exp/summary.md (means), $exp/results.txt (every domain), $exp/report.html"
fi
