#!/usr/bin/env bash
# The paper's comparison on a simulated world whose exact LLR is known.
#
#   egs/simulated/run.sh                          the demo world, the main systems
#   egs/simulated/run.sh --world=full             the full world, all systems (about forty minutes)
#   egs/simulated/run.sh --compare=balance        one of the paper's comparisons (see below)
#   egs/simulated/run.sh --stage=3                go on from a stage
#
# Stages: 0 simulate, 1 train, 2 export, 3 score, 4 evaluate and write the page, 5 summary.
# A system is a variant of train-backend, plda-snorm, plda-asnorm or cosine; after a dot may
# follow how its training differs: plda.flat, d-plda-dsd.z4 (function `settings` below).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$here/../../bin:$PATH
python=$here/../../.venv/bin/python
[ -x "$python" ] || python=${DCAPLDA_PYTHON:-python3}

world=demo            # conf/<world>-world.toml and conf/<world>-train.toml
dir=                  # default: exp/simulated-<world>
stage=0
stop_stage=5
seed=0                # of the simulated world
seeds=                # of training; default 0-1 for the demo, 0-2 for the full world
jobs=2                # runs at a time, one thread each
systems=              # default: those of the comparison, or the main ones
compare=              # balance chunks durations side joint selection vox seeds norm
top_n_candidates=     # of AS-norm, tuned on the development sets; default: three (demo), six (full)
bootstrap=            # replicates for confidence intervals; default 0 (demo), 200 (full)
set=                  # further settings of training for all systems: "stage1.steps=200 ..."

for argument in "$@"; do
  case $argument in
    --help | -h) sed -n '2,11p' "${BASH_SOURCE[0]}" | cut -c3-; exit 0 ;;
    --*=*)
      name=${argument%%=*}; name=${name#--}; name=${name//-/_}
      case " world dir stage stop_stage seed seeds jobs systems compare top_n_candidates bootstrap set " in
        *" $name "*) printf -v "$name" '%s' "${argument#*=}" ;;
        *) echo "run.sh: ERROR: no option '${argument%%=*}'; see --help" >&2; exit 1 ;;
      esac ;;
    *) echo "run.sh: ERROR: expected --name=value, found '$argument'" >&2; exit 1 ;;
  esac
done
world_file=$here/conf/$world-world.toml
train_file=$here/conf/$world-train.toml
[ -f "$world_file" ] || { echo "run.sh: ERROR: no world '$world': $world_file is missing" >&2; exit 1; }
main_systems="plda d-plda d-plda-dd d-plda-dsd plda-snorm plda-asnorm cosine"
eight="plda plda-dd plda-sd plda-dsd d-plda d-plda-dd d-plda-sd d-plda-dsd"
if [ "$world" = demo ]; then
  seeds=${seeds:-0-1} bootstrap=${bootstrap:-0} top_n_candidates=${top_n_candidates:-300 900 3000}
else
  top_n_candidates=${top_n_candidates:-100 300 900 2000 4000 6000}
  seeds=${seeds:-0-2} bootstrap=${bootstrap:-200} main_systems="$eight plda-snorm plda-asnorm cosine"
fi
case $compare in
  "") chosen=$main_systems ;;
  balance) chosen="plda plda.flat d-plda d-plda.flat d-plda-dsd d-plda-dsd.flat" ;;
  chunks) chosen="plda plda.whole d-plda d-plda.whole d-plda-dsd d-plda-dsd.whole" ;;
  durations) chosen="d-plda d-plda-dd.log d-plda-dd.bin d-plda-dd" ;;
  side) chosen="d-plda-dsd.identity d-plda-dsd.softmax d-plda-dsd.log-softmax d-plda-dsd.z2 d-plda-dsd.z4 d-plda-dsd.z8" ;;
  joint) chosen=$eight ;;
  selection) chosen="d-plda d-plda.seen d-plda-dsd d-plda-dsd.seen" ;;
  vox) chosen="d-plda d-plda.vox d-plda-dsd d-plda-dsd.vox" ;;
  seeds) chosen="d-plda d-plda-dsd"; seeds=0-9 ;;
  norm) chosen="plda plda-snorm plda-asnorm d-plda-dsd" ;;
  *) echo "run.sh: ERROR: --compare=$compare: expected balance, chunks, durations, side, joint, selection, vox, seeds or norm" >&2; exit 1 ;;
esac
systems=${systems:-$chosen}
dir=${dir:-exp/simulated-$world}
data=$dir/data
name=${compare:-main}
start=$SECONDS

say() { echo "run.sh: [$((SECONDS - start)) s] $*" >&2; }
wanted() { [ "$stage" -le "$1" ] && [ "$stop_stage" -ge "$1" ]; }
# Sets by role (trnh, dev, eval), one name per line.
sets_of() { cut -d' ' -f1 "$data/test_sets" | grep -E "^($1)-"; }

# How the training of <variant>.<tag> differs: options of train-backend.
settings() {
  case $1 in
    flat) echo "--set=init.balance=flat --set=batch.balance=flat" ;;
    whole) echo "--set=init.subset=all" ;;
    log | bin | wlog) echo "--set=model.duration_feature=$1" ;;
    identity | softmax | log-softmax) echo "--set=model.side_activation=$1" ;;
    z[0-9]*) echo "--set=model.side_info_dim=${1#z}" ;;
    seen | vox | "") ;;
    *) echo "run.sh: ERROR: nobody knows how to train '.$1'" >&2; return 1 ;;
  esac
}

# The recipe with its development sets: all, the seen domains, or one domain.
write_recipe() {  # <file> <pattern of set names>
  mkdir -p "$(dirname "$1")"
  {
    cat "$train_file"
    cut -d' ' -f1 "$data/test_sets" | grep -E "$2" | while read -r set_name; do
      printf '\n[[dev]]\nname = "%s"\ngroup = "%s"\n' "$set_name" "${set_name%%-*}"
      for pair in xvectors=scp:xvector.scp durations=utt2dur trials=trials_single; do
        value=${pair#*=}; prefix=; case $value in scp:*) prefix=scp: value=${value#scp:} ;; esac
        printf '%s = "%s"\n' "${pair%%=*}" "$prefix$(realpath "$data")/$set_name/$value"
      done
    done
  } > "$1"
}

train_one() {  # <variant>[.<tag>]
  local system=$1 variant=${1%%.*} tag= source=$data/train pattern='^(trnh|dev)-' few=$seeds
  case $1 in *.*) tag=${1#*.} ;; esac
  case $tag in
    whole) source=$data/train_full ;;
    seen) pattern='^trnh-' ;;
    vox) source=$data/train_vox pattern='^trnh-vox-' ;;
  esac
  if [ -f "$dir/exp/$system/model.safetensors" ]; then
    say "$system is trained already; remove $dir/exp/$system to train it again"
    return
  fi
  local extra=(); for word in $set; do extra+=("--set=$word"); done
  if [ "$variant" = plda ]; then
    # Plain PLDA with global calibration is the start of every other training: no step, no chance.
    few=${seeds%%-*}
    for number in 1 2 3; do extra+=("--set=stage$number.steps=0"); done
  fi
  local words; words=$(settings "$tag") || return 1
  if [ -d "$dir/exp/$system" ]; then extra+=(--resume=true); fi  # a run that was stopped goes on
  write_recipe "$dir/conf/$system.toml" "$pattern"
  # shellcheck disable=SC2086
  train-backend --config="$dir/conf/$system.toml" --variant="$variant" --seeds="$few" \
    --jobs="$seeds_at_once" --threads=1 --export=false $words "${extra[@]}" \
    "$source" "scp:$source/xvector.scp" "$dir/exp/$system" > "$dir/log/train.$system" 2>&1 ||
    { tail -3 "$dir/log/train.$system" >&2; return 1; }
  say "trained $system: $(grep -o "seed [0-9]*: average.*\|seed [0-9]* is selected" "$dir/log/train.$system" | tr "\n" " ")"
}

# Where each training run is, from the last line of its log.
progress() {
  for log in "$dir"/exp/*/seed-*/log.jsonl; do
    [ -f "$log" ] && [ ! -f "${log%/*}/training_summary.json" ] || continue
    run=${log#"$dir/exp/"}
    tail -1 "$log" | sed -n "s#.*\"stage\": \([0-9]*\), \"step\": \([0-9]*\),.*#${run%%/*} ${run%/*} stage \1 step \2#p" |
      sed 's# [^ ]*/# #'
  done | paste -sd';' | sed 's/;/; /g'
}

# Runs <command> <word> for each word, so many at a time, and says from time to time how it goes.
in_parallel() {  # <at-once> <command> <words ...>
  local most=$1 command=$2 failed=$dir/log/failed last=$SECONDS running at; shift 2
  rm -f "$failed"
  for word in "$@" ""; do
    # The empty word at the end waits for the last runs.
    while running=$(jobs -rp | wc -l); [ "$running" -ge "$most" ] || { [ -z "$word" ] && [ "$running" -gt 0 ]; }; do
      sleep 0.5
      if [ "$command" = train_one ] && [ $((SECONDS - last)) -ge 15 ]; then
        last=$SECONDS; at=$(progress); say "training: ${at:-reading data, LDA, PLDA}"
      fi
    done
    [ -n "$word" ] || continue
    ("$command" "$word" || echo "$word" >> "$failed") &
  done
  wait
  if [ -f "$failed" ]; then
    say "ERROR: failed: $(paste -sd' ' "$failed"); see $dir/log"
    exit 1
  fi
}

# Systems that are trained; score normalization works on PLDA.
trained() {
  for system in $systems; do
    case $system in
      plda-snorm | plda-asnorm) echo plda ;;
      cosine) ;;
      *) echo "$system" ;;
    esac
  done | awk '!seen[$0]++'
}

if wanted 0; then
  if [ -f "$data/test_sets" ]; then say "stage 0: $data is there already"; else
    say "stage 0: simulating $world_file with seed $seed"
    simulate-xvectors --seed="$seed" "$world_file" "$data" 2>&1 | while read -r line; do
      echo "$line" >&2
    done
  fi
fi
mkdir -p "$dir/log" "$dir/conf" "$dir/scores"

if wanted 1; then
  say "stage 1: training $(trained | tr '\n' ' ')with seeds $seeds, $jobs at a time"
  case " $systems " in *.vox*)
    mkdir -p "$data/train_vox"
    for table in utt2spk utt2dur utt2sess utt2dom xvector.scp; do
      grep '^vox-' "$data/train/$table" > "$data/train_vox/$table"
    done ;;
  esac
  # The seeds of one system side by side keep all cores busy to the end; a single seed cannot.
  seeds_at_once=1
  if [ $((${seeds##*-} - ${seeds%%-*} + 1)) -ge "$jobs" ]; then seeds_at_once=$jobs; fi
  # shellcheck disable=SC2046
  in_parallel $((jobs / seeds_at_once)) train_one $(trained)
fi

if wanted 2; then
  say "stage 2: exporting to ONNX"
  for system in $(trained); do
    export-onnx "$dir/exp/$system" "$dir/bundles/$system" 2> "$dir/log/export.$system" ||
      { tail -2 "$dir/log/export.$system" >&2; exit 1; }
  done
  case " $systems " in *" cosine "*)
    import-model --from=cosine "scp:$data/train/xvector.scp" "$dir/bundles/cosine" \
      2> "$dir/log/export.cosine" || { tail -2 "$dir/log/export.cosine" >&2; exit 1; } ;;
  esac
fi

# All sets are scored in one go: their ids differ, and a tool starts once instead of 24 times.
pool=$dir/pool
score_pool() {  # <bundle> <scores-dir> <options ...>
  local bundle=$1 out=$2; shift 2
  mkdir -p "$out"
  local common=(--durations="$pool/utt2dur" --threads=1 --print-args=false "$@")
  local table=scp:$pool/xvector.scp
  score-trials "${common[@]}" "$bundle" "$table" "$table" "$pool/trials_single" "$out/single"
  for way in scores voiceprints; do
    score-trials "${common[@]}" --spk2utt="$pool/models" --multi-enroll=$way \
      "$bundle" "$table" "$table" "$pool/trials_multi" "$out/multi-$way"
  done
}

calibrate() {  # <raw-dir> <out-dir>: fitted on the trials of training speakers
  mkdir -p "$2"
  calibrate-scores --print-args=false --allow-extra --prior=0.01 "$data/calibration/trials_single" \
    "$1/single" "$2/calibration.json"
  for kind in single multi-scores multi-voiceprints; do
    calibrate-scores --print-args=false --apply="$2/calibration.json" "$1/$kind" "$2/$kind"
  done
}

split_sets() {  # <dir>: one file per set, named by the test's id <role>-<domain>-s*-r*-<version>
  for kind in single multi-scores multi-voiceprints; do
    awk -v dir="$1" -v kind=$kind '{
      if (split($2, a, "-") == 5) print > (dir "/" a[1] "-" a[2] "-" a[5] "." kind)
    }' "$1/$kind"
  done
}

cohort=(--cohort="scp:$data/cohort/xvector.scp" --cohort-durations="$data/cohort/utt2dur")
tune_top_n() {  # the N of AS-norm with the least average Cllr at 0.01 over TRNH and DEV
  local best= least=9e9 raw=$dir/scores/tune
  mkdir -p "$raw"
  grep -hE '^(trnh|dev)-' "$pool/trials_single" > "$raw/trials"
  cat "$data/calibration/trials_single" >> "$raw/trials"
  for n in $top_n_candidates; do
    [ "$n" -le "$(wc -l < "$data/cohort/xvector.scp")" ] || continue
    score-trials --print-args=false --score-norm=as --top-n="$n" "${cohort[@]}" \
      --durations="$pool/utt2dur" "$dir/bundles/plda" "scp:$pool/xvector.scp" \
      "scp:$pool/xvector.scp" "$raw/trials" "$raw/raw.$n" 2>> "$dir/log/tune"
    calibrate-scores --print-args=false --allow-extra "$data/calibration/trials_single" \
      "$raw/raw.$n" "$raw/$n.json" 2>> "$dir/log/tune"
    calibrate-scores --print-args=false --apply="$raw/$n.json" "$raw/raw.$n" "$raw/$n" 2>> "$dir/log/tune"
    awk -v dir="$raw" -v n="$n" '{
      if (split($2, a, "-") == 5) print > (dir "/" a[1] "-" a[2] "-" a[5] "." n)
    }' "$raw/$n"
    {
      for set_name in $(sets_of 'trnh|dev'); do
        printf '[[set]]\nname = "%s"\ntrials = "%s"\n' "$set_name" "$(realpath "$data")/$set_name/trials_single"
      done
      printf '[[system]]\nname = "%s"\nscores = "{set}.%s"\n' "$n" "$n"
    } > "$raw/$n.toml"
    loss=$(eval-scores --print-args=false --bootstrap=0 --table="$raw/$n.toml" --json 2>> "$dir/log/tune" |
      "$python" -c 'import json, sys; rows = [r["cllr_0.01"] for r in json.load(sys.stdin)]; print(sum(rows) / len(rows))')
    say "AS-norm with the top $n: average Cllr at 0.01 over the development sets $loss"
    if awk "BEGIN { exit !($loss < $least) }"; then least=$loss best=$n; fi
  done
  echo "$best" > "$raw/best"
}

score_one() {  # <system>
  local out=$dir/scores/$1 log=$dir/log/score.$1
  case $1 in
    plda-snorm) score_pool "$dir/bundles/plda" "$out/raw" --score-norm=s "${cohort[@]}" 2> "$log" ;;
    plda-asnorm)
      tune_top_n && score_pool "$dir/bundles/plda" "$out/raw" --score-norm=as \
        --top-n="$(cat "$dir/scores/tune/best")" "${cohort[@]}" 2> "$log" ;;
    cosine) score_pool "$dir/bundles/cosine" "$out/raw" 2> "$log" ;;
    *) score_pool "$dir/bundles/$1" "$out" 2> "$log" ;;
  esac || { tail -2 "$log" >&2; return 1; }
  if [ -d "$out/raw" ]; then calibrate "$out/raw" "$out" 2>> "$log" || { tail -2 "$log" >&2; return 1; }; fi
  split_sets "$out"
  say "scored $1"
}

if wanted 3; then
  say "stage 3: scoring $(cut -d' ' -f1 "$data/test_sets" | wc -l) sets, single and 3-utterance enrolment"
  mkdir -p "$pool"
  places=$(cut -d' ' -f1 "$data/test_sets")
  for table in xvector.scp utt2dur trials_single; do
    for place in $places calibration; do cat "$data/$place/$table"; done > "$pool/$table"
  done
  for table in models trials_multi; do for place in $places; do cat "$data/$place/$table"; done > "$pool/$table"; done
  # shellcheck disable=SC2086
  in_parallel "$jobs" score_one $systems
  mkdir -p "$dir/scores/oracle"
  for place in $places; do
    cp "$data/$place/oracle_single" "$dir/scores/oracle/$place.single"
    for way in scores voiceprints; do cp "$data/$place/oracle_multi" "$dir/scores/oracle/$place.multi-$way"; done
  done
fi

write_table() {  # <file> <kind> <pattern of set names> <systems ...>
  local file=$1 kind=$2 pattern=$3 trials=trials_${2%%-*}; shift 3
  {
    while read -r set_name group; do
      place=$(realpath "$data")/$set_name
      # The mean of all unseen evaluation sets gets a row, and an interval, of its own.
      case $set_name in eval-*) group="$group\", \"unseen" ;; esac
      printf '[[set]]\nname = "%s"\ngroup = ["%s"]\ntrials = "%s"\n' "$set_name" "$group" "$place/$trials"
      [ "$bootstrap" -eq 0 ] || [ "$kind" != single ] || printf 'utt2spk = "%s"\n' "$place/utt2spk"
    done < <(grep -E "$pattern" "$data/test_sets")
    for system in "$@"; do
      printf '[[system]]\nname = "%s"\nscores = "%s"\n' "$system" "../scores/$system/{set}.$kind"
      [ "$system" != oracle ] || echo 'reference = true'
      if [ -d "$dir/bundles/$system" ]; then printf 'model = "%s"\n' "../bundles/$system"; fi
    done
  } > "$file"
}

results=$dir/results
page=$results/$name.html
if wanted 4; then
  say "stage 4: evaluating"
  mkdir -p "$results"
  if [ ! -f "$results/oracle.json" ]; then
    bootstrap=0 write_table "$results/oracle.toml" single . oracle
    sed -i 's#^trials = "\(.*\)/trials_single"#&\nutt2spk = "\1/utt2spk"#' "$results/oracle.toml"
    eval-scores --print-args=false --bootstrap=100 --table="$results/oracle.toml" \
      --json="$results/oracle.json" > /dev/null 2> "$dir/log/oracle" &
  fi
  # shellcheck disable=SC2086
  write_table "$results/$name.single.toml" single . oracle $systems
  baseline=
  case " $systems " in *" d-plda-dsd "*) baseline=d-plda-dsd ;; esac
  eval-scores --print-args=false --bootstrap="$bootstrap" --table="$results/$name.single.toml" \
    --baseline="$baseline" --json="$results/$name.single.json" --title="Simulated world: $name" \
    --report="$page" > "$results/$name.single.txt" 2> "$dir/log/evaluate" ||
    { tail -2 "$dir/log/evaluate" >&2; exit 1; }
  for way in scores voiceprints; do
    # shellcheck disable=SC2086
    write_table "$results/$name.multi-$way.toml" multi-$way . oracle $systems
    eval-scores --print-args=false --bootstrap=0 --table="$results/$name.multi-$way.toml" \
      --json="$results/$name.multi-$way.json" > "$results/$name.multi-$way.txt" 2>> "$dir/log/evaluate"
  done
  wait
fi

if wanted 5; then
  say "stage 5: summary"
  "$python" "$here/local/summary.py" "$results/$name" | tee "$results/$name.summary"
  say "done"
  set_name=$(sets_of eval | head -1)
  printf -v at '%q' "$dir"
  cat <<END

Figures of every set: $results/$name.single.txt

Next, without any recipe, on the same data; or on your own, Kaldi data directories in place of these:
  PATH=$(realpath --relative-to=. "$here/../../bin"):\$PATH
  train-backend $at/data/train scp:$at/data/train/xvector.scp $at/backend
  score-trials --durations=$at/data/$set_name/utt2dur $at/backend/bundle scp:$at/data/$set_name/xvector.scp scp:$at/data/$set_name/xvector.scp $at/data/$set_name/trials_single $at/backend/scores
  eval-scores --report=$at/backend/report.html $at/data/$set_name/trials_single $at/backend/scores
Your own recordings in one go, people held out and trials made: egs/recordings/run.sh (docs/recipe.md)

The page that shows which system is best and where each fails; open it in a browser:
$("$python" -c 'import pathlib, sys; print(pathlib.Path(sys.argv[1]).resolve().as_uri())' "$page")
END
fi
