#!/usr/bin/env bash
# What keeps calibration where nobody trained: one change at a time, on the development sets only.
#
#   egs/recordings/robustness.sh <exp-dir>             after stage 0 of run.sh made <exp-dir>
#   egs/recordings/robustness.sh --only=noise <exp-dir>  changes whose name matches (a pattern as of grep -E)
#   egs/recordings/robustness.sh --lodo=true <exp-dir>   each training domain in turn as the unseen
#                                                      one; writes <exp-dir>/lodo.md
#
# Each change is a line of conf/robustness.txt: name, seeds, options of train-backend. A run that
# has finished is not repeated, so the whole can be stopped and started again. Writes
# <exp-dir>/robustness.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}
jobs=2
only=
lodo=false
all_seeds=   # in place of those of each line
exp=
for argument in "$@"; do
  case $argument in
    --jobs=*) jobs=${argument#*=} ;;
    --seeds=*) all_seeds=${argument#*=} ;;
    --lodo=*) lodo=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --*) echo "robustness.sh: ERROR: no option '${argument%%=*}'" >&2; exit 1 ;;
    *) exp=$argument ;;
  esac
done
[ -f "$exp/conf/train.toml" ] || { echo "robustness.sh: ERROR: expected an <exp-dir> that run.sh has prepared" >&2; exit 1; }
if [ "$lodo" != true ] && ! grep -q '^\[\[dev\]\]' "$exp/conf/train.toml"; then
  echo "robustness.sh: ERROR: $exp has no [[dev]] sets to measure on; name some for run.sh, or use --lodo=true" >&2; exit 1
fi
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1  # one thread for each run, numpy's too
changes=$here/conf/robustness.txt

train_one() {  # <run> <recipe> <data> <options ...>: in the background, when there is room
  local run=$1 recipe=$2 data=$3; shift 3
  [ ! -f "$run/training_summary.json" ] || return 0
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  mkdir -p "$(dirname "$run")"
  train-backend --config="$recipe" --threads=1 --resume --export=false "$@" \
    "$data" "scp:$data/xvector.scp" "$run" > "$run.log" 2>&1 < /dev/null ||
    echo "robustness.sh: $run failed: $(tail -1 "$run.log")" >&2 &
}

if [ "$lodo" = true ]; then
  [ -f "$exp/lodo/names" ] || "$python" "$here/local/lodo.py" prepare "$exp"
fi
common=
while read -r name seeds options; do
  case $name in
    "" | "#"*) continue ;;
    @) common="$seeds $options"; continue ;;
  esac
  [ -z "$only" ] || [[ $name =~ $only ]] || continue
  seeds=${all_seeds:-$seeds}
  for seed in $(seq "${seeds%%-*}" "${seeds##*-}"); do
    if [ "$lodo" = true ]; then
      while read -r domain; do
        # shellcheck disable=SC2086
        train_one "$exp/lodo/$domain/$name/seed-$seed" "$exp/lodo/$domain/train.toml" \
          "$exp/lodo/$domain/train" --seed="$seed" $common $options
      done < "$exp/lodo/names"
    else
      # shellcheck disable=SC2086
      train_one "$exp/robustness/$name/seed-$seed" "$exp/conf/train.toml" "$exp/data/train" \
        --seed="$seed" $common $options
    fi
  done
done < "$changes"
wait
if [ "$lodo" = true ]; then
  "$python" "$here/local/lodo.py" table "$exp" "$changes" > "$exp/lodo.md"
  echo "robustness.sh: wrote $exp/lodo.md" >&2
else
  "$python" "$here/local/plan.py" robustness "$exp" "$changes" > "$exp/robustness.md"
  echo "robustness.sh: wrote $exp/robustness.md" >&2
fi
