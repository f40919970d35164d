#!/usr/bin/env bash
# A joint model of the simulated world: new places with and without utterances of them, several
# utterances enrolled, and the exact LLR of the same trials as the floor.
#
#   egs/simulated/adaptation.sh                     the demo world
#   egs/simulated/adaptation.sh --dir=exp/demo      a world that `make demo` has simulated
#
# Half of the people of each unseen evaluation set are heard without labels, the other half are
# judged (egs/recordings/local/halvings.py). Training takes about ten minutes of a core. What is done
# is not done again. Writes <dir>/places/adaptation.md. See docs/adaptation.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

dir=exp/simulated-demo
world=demo            # conf/<world>-world.toml
train=$here/conf/joint.toml
halvings=5
pools=10,30
options=              # further ones of train-backend

for argument in "$@"; do
  case $argument in
    --help | -h) sed -n '2,10p' "${BASH_SOURCE[0]}" | cut -c3-; exit 0 ;;
    --*=*)
      name=${argument%%=*}; name=${name#--}
      case " dir world train halvings pools options " in
        *" $name "*) printf -v "$name" '%s' "${argument#*=}" ;;
        *) echo "adaptation.sh: ERROR: no option '${argument%%=*}'; see --help" >&2; exit 1 ;;
      esac ;;
    *) echo "adaptation.sh: ERROR: expected --name=value, found '$argument'" >&2; exit 1 ;;
  esac
done
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
start=$SECONDS
say() { echo "adaptation.sh: [$((SECONDS - start)) s] $*" >&2; }
shared=$here/../recordings/local

[ -f "$dir/data/test_sets" ] || "$here/run.sh" --world="$world" --dir="$dir" --stop-stage=0
data=$dir/data out=$dir/places
if [ ! -f "$dir/joint/bundle/model.json" ]; then
  say "training $train"
  # shellcheck disable=SC2086
  train-backend --config="$train" --threads=1 --resume=true $options "$data/train" "scp:$data/train/xvector.scp" "$dir/joint"
fi
for place in "$data"/eval-*; do
  set=${place##*/}
  say "$set"
  for kind in single multi; do
    models=-; [ "$kind" = single ] || models=$place/models
    [ ! -f "$out/$set/$kind.tsv" ] || continue
    rm -rf "$out/$set/$kind"
    "$python" "$shared/halvings.py" --halvings="$halvings" --pools="$pools" "$place" "$place/trials_$kind" "$models" "$out/$set/$kind"
    "$python" "$shared/adaptation.py" measure "$dir/joint/bundle" "$place" "$out/$set/$kind" "$place/trials_$kind" "$models" "$out/$set/$kind.tsv"
  done
done
# The same world, whose people were recorded more often.
if [ ! -f "$dir/often/done" ]; then
  say "people with 13 recordings"
  rm -rf "$dir/often"
  sed 's/^\[sets\]/[sets]\nenroll_recordings = 10/' "$here/conf/$world-world.toml" > "$dir/often.toml"
  simulate-xvectors --oracle=false "$dir/often.toml" "$dir/often"
  touch "$dir/often/done"
fi
{
  "$python" "$here/local/places.py" table "$out"
  echo
  "$python" "$here/local/places.py" numbers "$dir/joint/bundle" "$dir/often"
} | tee "$out/adaptation.md"
say "done: $out/adaptation.md"
