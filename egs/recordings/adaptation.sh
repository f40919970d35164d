#!/usr/bin/env bash
# Several utterances taken together, and new places with and without utterances of them.
#
#   egs/recordings/adaptation.sh <data-root> <exp-dir>                the development sets, halved
#   egs/recordings/adaptation.sh --lodo=true <data-root> <exp-dir>    each training corpus left out in turn
#   egs/recordings/adaptation.sh --wrong=true <data-root> <exp-dir>   pools that are wrong, and what they cost
#   egs/recordings/adaptation.sh --lodo=true --numbers=true ...   and one to ten utterances enrolled there
#   egs/recordings/adaptation.sh --name=lda-150 --options="--set=model.lda_dim=150" --lodo=true ...
#                                    another training beside it, and its paired difference from `joint`
#
# Trains conf/joint.toml to one bundle, and compares nothing, 10 and 30 unlabelled utterances of a
# place: half of its people give them, the other half the trials (local/halvings.py). Folders are named in
# conf/data.toml. What is done is not done again: remove <exp-dir>/<part> to repeat it. Writes
# <exp-dir>/<name>/adaptation.md, lodo.md, numbers.md, wrong.md and, of another training, compare-*.md. See docs/adaptation.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

data=$here/conf/data.toml
train=$here/conf/joint.toml
name=joint                      # of the training; a directory of <exp-dir>
options=                        # further ones of train-backend
jobs=2
sets="unseen-single unseen-multi seen-single seen-multi"  # of conf/data.toml
halvings=5
pools=10,30
seeds=0-2                       # of the halvings of corpora left out; training has none
lodo=false
wrong=false
numbers=false

known="data train name options jobs sets halvings pools seeds lodo wrong numbers"
. "$here/local/options.sh"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
work() { "$python" "$here/local/adaptation.py" "$@"; }
room() { while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done; }
finish() { wait; [ ! -e "$exp/failed" ] || exit 1; }
guarded() { "$@" || touch "$exp/failed"; }

bundle_of() {  # <data-dir> <dir>: trained and exported, unless it is there
  [ ! -f "$2/bundle/model.json" ] || return 0
  mkdir -p "$2"
  # shellcheck disable=SC2086
  train-backend --config="$train" --threads=1 --resume $options "$1" "scp:$1/xvector.scp" "$2" > "$2/log" 2>&1 < /dev/null ||
    { echo "adaptation.sh: ERROR: $(tail -1 "$2/log"); see $2/log" >&2; return 1; }
}
halve() {  # <seed> <data-dir> <trials> <spk2utt> <out-dir>
  [ ! -d "$5" ] || return 0
  rm -rf "$5.tmp"
  "$python" "$here/local/halvings.py" --halvings="$halvings" --pools="$pools" --seed="$1" "$2" "$3" "$4" "$5.tmp"
  mv "$5.tmp" "$5"
}
set_row() { awk -F'\t' -v name="$1" '$2 == name { print $3, $4, $5 }' "$exp/sets.tsv"; }

mkdir -p "$exp"; rm -f "$exp/failed"
if [ ! -f "$exp/sets.tsv" ]; then
  say "tables of $data"
  "$python" "$here/local/tables.py" prepare "$data" "$train" "$here/conf/paper.toml" "$root" "$exp"
fi
exp=$(cd "$exp" && pwd) out=$exp/$name
say "training $name"
bundle_of "$exp/data/train" "$out"

one_set() {  # <set> <folder> <trials> <spk2utt>
  local place=$exp/data/$2 models=-
  [ "$4" = - ] || models=$place/$4
  halve 0 "$place" "$place/$3" "$models" "$exp/halvings/$1"
  [ -f "$out/$1.tsv" ] || work measure "$out/bundle" "$place" "$exp/halvings/$1" "$place/$3" "$models" "$out/$1.tsv"
  if [ "$wrong" = true ] && [ ! -f "$out/wrong/$1.tsv" ]; then
    work wrong "$out/bundle" "$place" "$exp/halvings/$1" "$models" "$out/wrong/$1.tsv" "${folders[@]}"
  fi
}
folders=()
for set in $sets; do
  row=$(set_row "$set"); [ -n "$row" ] || { say "ERROR: $data names no set '$set'"; exit 1; }
  case " ${folders[*]} " in *" $exp/data/${row%% *} "*) ;; *) folders+=("$exp/data/${row%% *}") ;; esac
done
say "halvings of $sets"
for set in $sets; do
  room
  # shellcheck disable=SC2046
  guarded one_set "$set" $(set_row "$set") &
done
finish
named=()
for set in $sets; do named+=("$set=$out/$set.tsv"); done
work table "${named[@]}" | tee "$out/adaptation.md"

left_out() {  # <corpus>
  local place=$exp/lodo/$1 own=$out/lodo/$1 seed
  bundle_of "$place/train" "$own" || return 1
  for seed in $(seq "${seeds%%-*}" "${seeds##*-}"); do
    halve "$seed" "$place/held" "$place/held/trials" - "$place/halvings.$seed"
    [ -f "$own/seed-$seed.tsv" ] ||
      work measure "$own/bundle" "$place/held" "$place/halvings.$seed" "$place/held/trials" - \
        "$own/seed-$seed.tsv"
    [ "$numbers" = false ] || [ -f "$own/numbers-$seed.tsv" ] ||
      "$python" "$here/local/numbers_enrolled.py" measure "$own/bundle" "$place/held" "$place/halvings.$seed" "$own/numbers-$seed.tsv"
  done
  if [ "$wrong" = true ] && [ ! -f "$own/wrong.tsv" ]; then
    work wrong "$own/bundle" "$place/held" "$place/halvings.${seeds%%-*}" - "$own/wrong.tsv" "$place/train"
  fi
}
tables_of() {  # <page> <part of file names> <program> ...: and of another training the difference from `joint`
  local page=$1 part=$2 files=() before=() corpus seed
  shift 2
  while read -r corpus; do
    for seed in $(seq "${seeds%%-*}" "${seeds##*-}"); do
      files+=("$out/lodo/$corpus/$part-$seed.tsv") before+=("$exp/joint/lodo/$corpus/$part-$seed.tsv")
    done
  done < "$exp/lodo/names"
  "$@" "$page" "${files[@]}" | tee "$out/$page.md"
  if [ "$name" != joint ] && [ -f "${before[0]}" ]; then
    "$@" compare "${before[@]}" -- "${files[@]}" | tee "$out/compare-$page.md"
  fi
}
if [ "$lodo" = true ]; then
  [ -f "$exp/lodo/names" ] || "$python" "$here/local/lodo.py" prepare "$exp"
  say "corpora left out: $(tr '\n' ' ' < "$exp/lodo/names")"
  while read -r corpus; do room; guarded left_out "$corpus" & done < "$exp/lodo/names"
  finish
  tables_of lodo seed work
  [ "$numbers" = false ] || tables_of numbers numbers "$python" "$here/local/numbers_enrolled.py"
fi

if [ "$wrong" = true ]; then
  named=()
  for set in $sets; do named+=("$set=$out/wrong/$set.tsv"); done
  if [ "$lodo" = true ]; then
    files=$(sed "s|.*|$out/lodo/&/wrong.tsv|" "$exp/lodo/names" | paste -sd,)
    named+=("left out=$files")
  fi
  work wrong-table "${named[@]}" | tee "$out/wrong.md"
fi
say "done: $out/*.md"
