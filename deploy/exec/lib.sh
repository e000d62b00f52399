# shellcheck shell=sh
# What the scripts of this folder share. They are plain sh with the programs of a small Debian
# (coreutils, sed, util-linux) and need no JSON parser: a request has each key on a line of its
# own, two spaces before it, with its value on the same line.
set -eu
umask 077
export LC_ALL=C

# Exit codes of the driver; 0 is accepted, any other one is transient and tried again.
# shellcheck disable=SC2034 # each script uses some
OUT_OF_STOCK=10 PERMANENT=20

# fail REASON [CODE]: the last line of standard error is the reason.
fail() {
  echo "$1" >&2
  exit "${2:-1}"
}

# read_request: keeps standard input for value and text.
read_request() { request=$(cat); }

# value KEY: prints a value of the request as it is, JSON.
value() { printf '%s\n' "$request" | sed -n "s/^  \"$1\": \\(.*[^,]\\),*\$/\\1/p"; }

# text KEY: prints a text that holds no escapes, such as the record and base64.
text() { printf '%s\n' "$request" | sed -n "s/^  \"$1\": \"\\([^\"\\\\]*\\)\",*\$/\\1/p"; }

# put FILE LINE: writes a file that others read as a whole.
put() {
  printf '%s\n' "$2" >"$1.new"
  mv "$1.new" "$1"
}

# get FILE: sets $line to the first line of a file, to nothing when there is no file. No
# process is started, so that observe is quick with many machines.
# shellcheck disable=SC2034 # those who call it use it
get() {
  line=''
  [ ! -f "$1" ] || IFS= read -r line <"$1" || true
}

# lock DIR: of two calls for a machine one waits: the provider may have been killed while a script
# of it ran. A lock ends with the process that holds it, and with those that inherited it.
lock() {
  exec 9<"$1" || fail "somebody has just removed $1; try again"
  flock -w 20 9 || fail "another call for this machine is still running"
  [ -d "$1" ] || fail "somebody has just removed $1; try again"
}

# plain TEXT: prints it as it may stand between quotes in JSON.
plain() { printf '%s' "$1" | tr -cd ' !#-[]-~' | cut -c1-300; }

# observed RECORD PHASE [REF [NODE [REASON [MORE]]]]: prints a machine for observe. MORE is JSON:
# further keys of the object.
observed() {
  printf '{"record":"%s","phase":"%s","ref":"%s","node":"%s","reason":"%s"%s}\n' "$1" "$2" "${3-}" "${4-}" "${5-}" "${6:+,$6}"
}

# The rest is for machines that are processes of this host. MACHINES/NAME is one machine:
#
#   record   what the provider wants to be told again
#   want     what it is to do: idle, join CLUSTER, leave DEADLINE or delete
#   have     what it has come to: idle, joined CLUSTER or failed REASON; written by the machine
#   process  its process id, and when that was started
#   seed     what it was given to join its cluster with
#   facts    what its node is like, JSON; written by the machine
#   node.*   what its node shall be like, JSON
#   log      what the machine has printed

# alive DIR: whether the machine's process lives. Another one may have its number by now, but
# was not started at the same time.
alive() {
  get "$1/process"
  pid=${line% *} began=${line#* }
  [ -n "$pid" ] || return 1
  { IFS= read -r stat <"/proc/$pid/stat"; } 2>/dev/null || return 1
  # shellcheck disable=SC2086 # words are wanted
  set -- ${stat##*) }
  [ "${20}" = "$began" ] && [ "$1" != Z ]
}

# become DIR: notes that this process is the machine. Of two that try one ends at once.
become() {
  exec 8>"$1/alive"
  flock -n 8 || exit 0
  IFS= read -r stat <"/proc/$$/stat"
  dir=$1
  # shellcheck disable=SC2086 # words are wanted
  set -- ${stat##*) }
  put "$dir/process" "$$ ${20}"
}

# make_machine DIR PROGRAM: has a machine that PROGRAM is. CAPACITY says how many there may be.
make_machine() {
  [ "$TONNAGE_LATE_BOUND" = false ] || fail "these machines exist before they have a cluster: the pool must not be late-bound" "$PERMANENT"
  program=$2
  mkdir -p "$MACHINES"
  lock "$MACHINES" # those that are created at the same time are counted
  if [ ! -d "$1" ] && [ -n "${CAPACITY-}" ]; then
    dir=$1
    set -- "$MACHINES"/*/
    [ ! -d "$1" ] || [ $# -lt "$CAPACITY" ] || fail "this host has room for $CAPACITY machines" "$OUT_OF_STOCK"
    set -- "$dir"
  fi
  mkdir -p "$1"
  lock "$1"
  put "$1/record" "$(text record)"
  for key in labels taints allocatable; do put "$1/node.$key" "$(value $key)"; done
  [ -s "$1/want" ] || put "$1/want" idle
  alive "$1" || setsid "$program" "$1" "$TONNAGE_NAME" </dev/null >>"$1/log" 2>&1 9>&- &
}

# want_join DIR: has a machine join its cluster with the bootstrap data, unless it does already.
want_join() {
  alive "$1" || fail "its process has ended"
  lock "$1"
  get "$1/want"
  if [ "$line" != "join $TONNAGE_CLUSTER" ]; then
    text bootstrap | base64 -d >"$1/seed.new"
    chmod 700 "$1/seed.new"
    mv "$1/seed.new" "$1/seed"
  fi
  put "$1/record" "$(text record)"
  put "$1/want" "join $TONNAGE_CLUSTER"
}

# want_leave DIR: has a machine leave its cluster, by the deadline at the latest.
want_leave() {
  [ -d "$1" ] || return 0
  alive "$1" || fail "its process has ended"
  lock "$1"
  put "$1/want" "leave $(($(date +%s) + TONNAGE_GRACE_SECONDS))"
}

# remove_machine DIR: ends it. bury, of the script, removes the folder and all else.
remove_machine() {
  [ -d "$1" ] || return 0
  lock "$1"
  put "$1/want" delete
  if alive "$1"; then kill -9 "-$pid"; fi
  bury "$1"
}

# reap DIR: buries a machine whose process has ended by itself; nobody waits for that.
reap() {
  (
    exec 9<"$1" && flock -n 9 && [ -d "$1" ] && ! alive "$1" || exit 0
    bury "$1"
  ) </dev/null >/dev/null 2>&1 &
}

# observe_machines SCHEME: prints all machines. One whose process has ended is no more; one that
# never came up says why.
observe_machines() {
  for dir in "$MACHINES"/*/; do
    dir=${dir%/}
    get "$dir/record"
    record=$line
    [ -n "$record" ] || continue # it is being created or removed
    get "$dir/want"
    want=$line
    get "$dir/have"
    have=$line
    if [ -f "$dir/process" ] && ! alive "$dir"; then
      if [ -n "$have" ]; then
        reap "$dir"
        continue
      fi
      have="failed its process has ended: $(plain "$(tail -n 1 "$dir/log")")"
    fi
    facts='' node='' reason=''
    case $have in
    '') phase=Creating ;;
    failed*) phase=Failed reason=${have#failed } ;;
    idle) case $want in join*) phase=Configuring ;; *) phase=Idle ;; esac ;;
    "joined ${want#join }") phase=Configured ;;
    *) case $want in join*) phase=Configuring ;; *) phase=Draining ;; esac ;;
    esac
    [ "$want" != delete ] || phase=Deleting
    name=${dir##*/}
    case $phase in
    Configured)
      node=$name
      get "$dir/facts"
      facts=$line
      ;;
    Draining) node=$name ;;
    esac
    observed "$record" $phase "$1://$name" "$node" "$reason" "$facts"
  done
}
