#!/usr/bin/env bash
# What keeps calibration where nobody trained: one change at a time, on the development sets only.
#
#   egs/recordings/robustness.sh <exp-dir>             after stage 0 of run.sh made <exp-dir>
#   egs/recordings/robustness.sh --only=noise <exp-dir>  changes whose name has that word
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
exp=
for argument in "$@"; do
  case $argument in
    --jobs=*) jobs=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --*) echo "robustness.sh: ERROR: no option '${argument%%=*}'" >&2; exit 1 ;;
    *) exp=$argument ;;
  esac
done
[ -f "$exp/conf/train.toml" ] || { echo "robustness.sh: ERROR: expected an <exp-dir> that run.sh has prepared" >&2; exit 1; }
out=$exp/robustness
mkdir -p "$out"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1  # one thread for each run, numpy's too
while read -r name seeds options; do
  case $name in "" | "#"*) continue ;; esac
  case $name in *"$only"*) ;; *) continue ;; esac
  for seed in $(seq "${seeds%%-*}" "${seeds##*-}"); do
    run=$out/$name/seed-$seed
    [ ! -f "$run/training_summary.json" ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
    mkdir -p "$out/$name"
    # shellcheck disable=SC2086
    train-backend --config="$exp/conf/train.toml" --threads=1 --resume --seed="$seed" $options \
      "$exp/data/train" "scp:$exp/data/train/xvector.scp" "$run" > "$run.log" 2>&1 < /dev/null ||
      echo "robustness.sh: $name, seed $seed failed: $(tail -1 "$run.log")" >&2 &
  done
done < "$here/conf/robustness.txt"
wait
"$python" "$here/local/plan.py" robustness "$exp" "$here/conf/robustness.txt" > "$exp/robustness.md"
echo "robustness.sh: wrote $exp/robustness.md" >&2
