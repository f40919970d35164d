# Sourced by scripts that are called with options, <data-root> and <exp-dir>. The options are the variables
# that $known names; --help prints the comment at the script's head. Sets them, $root and $exp, and gives `say`.
script=${BASH_SOURCE[1]##*/}
start=$SECONDS
say() { echo "$script: [$((SECONDS - start)) s] $*" >&2; }
die() { echo "$script: ERROR: $*" >&2; exit 1; }

arguments=()
for argument in "$@"; do
  case $argument in
    --help | -h) awk 'NR > 1 { if (!/^#/) exit; print substr($0, 3) }' "${BASH_SOURCE[1]}"; exit 0 ;;
    --*=*)
      option=${argument%%=*}; option=${option#--}; option=${option//-/_}
      case " $known " in
        *" $option "*) printf -v "$option" '%s' "${argument#*=}" ;;
        *) die "no option '${argument%%=*}'; see --help" ;;
      esac ;;
    --*) die "$argument needs a value, $argument=...; see --help" ;;
    *) arguments+=("$argument") ;;
  esac
done
[ ${#arguments[@]} -eq 2 ] || die "expected <data-root> <exp-dir>; see --help"
root=${arguments[0]} exp=${arguments[1]}
[ -d "$root" ] || die "$root: no such directory"
