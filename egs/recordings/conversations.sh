#!/usr/bin/env bash
# Who spoke when: recordings put together from utterances, clustered in every way that
# docs/diarization.md compares.
#
#   egs/recordings/conversations.sh <data-root> <exp-dir>
#   egs/recordings/conversations.sh --systems="joint recordings" <data-root> <exp-dir>
#
# Trains conf/joint.toml with and without model.recordings, on everything and without each corpus in
# turn, and a plain PLDA for VBx; what is done is not done again. Recordings are of the chunks of
# <data-root>/train (corpora left out), dev_seen and dev_unseen, 30 a domain, seed 0. Writes
# <exp-dir>/conversations.md: seconds with the wrong speaker, speakers too many, (how many off).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

data=$here/conf/data.toml
train=$here/conf/joint.toml
systems="cosine vbx-recipe vbx-chosen mean-llrs joint joint-own-place recordings-no-place recordings"
each=30                         # recordings of a domain
options=                        # further ones of train-backend

known="data train systems each options"
. "$here/local/options.sh"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
local_() { "$python" "$here/local/$1.py" "${@:2}"; }

mkdir -p "$exp"
[ -f "$exp/sets.tsv" ] || local_ tables prepare "$data" "$train" "$here/conf/paper.toml" "$root" "$exp"
[ -f "$exp/lodo/names" ] || local_ lodo prepare "$exp"
exp=$(cd "$exp" && pwd) out=$exp/conversations
corpora=$(cat "$exp/lodo/names")

drawn() {  # <out-dir> <folder> [<utt2dom whose domains are meant>]
  [ ! -f "$1/reference" ] || return 0
  local domains=
  [ $# -lt 3 ] || domains=$(awk '{ print $2 }' "$3" | sort -u | paste -sd,)
  local_ conversations make --each="$each" --domains="$domains" "$root/$2" "$1.tmp"
  rm -rf "$1"; mv "$1.tmp" "$1"
}
say "recordings"
mkdir -p "$out/left-out" "$out/train"
drawn "$out/seen" dev_seen
drawn "$out/unseen" dev_unseen
drawn "$out/train/all" train
for corpus in $corpora; do
  drawn "$out/left-out/$corpus" train "$exp/lodo/$corpus/held/utt2dom"
  drawn "$out/train/$corpus" train "$exp/lodo/$corpus/train/utt2dom"
done

bundle() {  # <name> <part> <option>...: trained unless it is there; prints its folder
  local place=$exp/$1/lodo/$2 from=$exp/lodo/$2/train
  [ "$2" != all ] || { place=$exp/$1 from=$exp/data/train; }
  if [ ! -f "$place/bundle/model.json" ]; then
    say "training $1 (of $2)"
    mkdir -p "$place"
    # shellcheck disable=SC2086
    train-backend --config="$train" --threads=1 --resume "${@:3}" $options "$from" "scp:$from/xvector.scp" "$place" \
      > "$place/log" 2>&1 < /dev/null ||
      { echo "conversations.sh: ERROR: $(tail -1 "$place/log"); see $place/log" >&2; return 1; }
  fi
  echo "$place"
}
clustered() {  # <system> <part> <place>: <place>/<system>.utt2spk
  local place=$3 model how=() of=recordings
  case $1 in
    cosine) local_ conversations cosine "$out/train/$2" "$place" "$place/$1.utt2spk" > /dev/null; return ;;
    vbx-*)
      model=$(bundle vbx "$2" --set=model.joint=false --set=model.recordings=false --set=model.variant=plda \
        --set=model.lda_dim=128 --set=init.domain_offsets=false --set=init.shared_offset=0) || return 1
      [ -d "$model/vbx" ] || export-onnx --to=vbx "$model" "$model/vbx" > "$place/$1.log" 2>&1 || return 1
      if [ "$1" = vbx-chosen ]; then
        [ -f "$model/chosen" ] || local_ vbx choose --loop=0 "$model/vbx" "$out/train/$2" > "$model/chosen"
        read -ra how < "$model/chosen"; how+=(--loop=0)
      fi
      local_ vbx "${how[@]}" "$model/vbx" "$place" "$place/$1.utt2spk"; return ;;
    mean-llrs) of=joint how=(--link=average --own-place=false) ;;
    joint) of=joint how=(--own-place=false) ;;
    joint-own-place) of=joint how=(--own-place=true) ;;
    recordings-no-place) how=(--own-place=false) ;;
    recordings) ;;
    *) echo "conversations.sh: ERROR: no system '$1'" >&2; return 1 ;;
  esac
  if [ "$of" = joint ]; then
    model=$(bundle joint "$2" --set=model.recordings=false) || return 1
  else
    model=$(bundle recordings "$2") || return 1
  fi
  cluster-utterances "${how[@]}" --durations="$place/utt2dur" "$model/bundle" "$place/reco2utt" \
    "scp:$place/xvector.scp" "$place/$1.utt2spk" 2> "$place/$1.log" ||
    { echo "conversations.sh: ERROR: $(tail -1 "$place/$1.log")" >&2; return 1; }
}
for system in $systems; do
  say "clusters by $system"
  for corpus in $corpora; do
    [ -f "$out/left-out/$corpus/$system.utt2spk" ] || clustered "$system" "$corpus" "$out/left-out/$corpus"
  done
  for set in seen unseen; do
    [ -f "$out/$set/$system.utt2spk" ] || clustered "$system" all "$out/$set"
  done
done
# shellcheck disable=SC2086
local_ conversations table "$out" $systems | tee "$exp/conversations.md"
if [[ " $systems " == *" joint "* && " $systems " == *" recordings "* ]]; then
  local_ conversations paired "$out"/left-out/* -- joint recordings | tee -a "$exp/conversations.md"
fi
say "done: $exp/conversations.md"
