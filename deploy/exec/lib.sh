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
