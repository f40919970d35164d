# Sourced by run.sh and compare.sh; they set $exp (the experiment), $here (their folder) and $python.

plan() { "$python" "$here/local/plan.py" "$@"; }

score_sets() {  # <bundle> <scores-dir> <options ...>: one file per set
  local bundle=$1 out=$2; shift 2
  mkdir -p "$out"
  while IFS=$'\t' read -r _ name folder trials spk2utt _ _; do
    local place=$exp/data/$folder models=()
    [ "$spk2utt" = - ] || models=(--spk2utt="$place/$spk2utt")
    score-trials --print-args=false --durations="$place/utt2dur" "${models[@]}" "$@" "$bundle" \
      "scp:$place/xvector.scp" "scp:$place/xvector.scp" "$place/$trials" "$out/$name" 2>> "$out.log" ||
      { tail -1 "$out.log" >&2; return 1; }
  done < "$exp/sets.tsv"
}
by_domain() {  # <scores-dir>: each domain's part under the name that the table gives it
  while IFS=$'\t' read -r _ name _ _ _ _ domains; do
    for domain in ${domains//,/ }; do
      awk 'NR == FNR { score[$1 " " $2] = $3; next }
           { pair = ($1 == "0" || $1 == "1") ? $2 " " $3 : $1 " " $2; print pair, score[pair] }' \
        "$1/$name" "$exp/trials/$name/$domain" > "$1/$name.$domain"
    done
  done < "$exp/sets.tsv"
}
trained_on() { cat "$exp"/data/train/* "$@" | cksum; }  # what tells one training from another
