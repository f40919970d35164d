# Sourced by the scripts beside it: turns `--nj 8` or `--nj=8` into nj=8 for every variable
# that the script has already given a default, as Kaldi's parse_options.sh does.
while [ $# -gt 0 ]; do
  case "$1" in
    --help) echo "$usage"; exit 0 ;;
    --*=*) _name=${1%%=*}; _value=${1#*=}; _used=1 ;;
    --*) _name=$1; _value=${2-}; _used=2 ;;
    *) break ;;
  esac
  _name=$(echo "${_name#--}" | tr - _)
  if ! [[ "$_name" =~ ^[a-z][a-z0-9_]*$ ]] || [ -z "${!_name+set}" ] || [ $# -lt $_used ]; then
    echo "$0: unknown option or no value: $1" >&2; echo "$usage" >&2; exit 1
  fi
  printf -v "$_name" '%s' "$_value"
  shift $_used
done
