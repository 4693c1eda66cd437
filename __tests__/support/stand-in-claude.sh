#!/bin/sh
# A stand-in for the claude binary, for tests of what surrounds a worker and not of the worker: it fires the worker's
# SessionStart hook, does what $STAND_IN_DOES says with `sh -c`, fires the Stop hook if that was anything, and waits.
# With $STAND_IN_ENDS it dies of that exit code instead of waiting, without a word to anybody.
settings='' session=''
while [ $# -gt 0 ]; do
  case $1 in
    --settings) settings=$2 ;;
    --session-id | --resume) session=$2 ;;
    --version) echo '0.0.0 (stand-in)' && exit ;;
  esac
  shift
done

# The command of our hook for an event, out of a JSON string.
hook() {
  sed -n "s/^ *\"command\": \"\(.*js' worker $1 .*\)\",\{0,1\}$/\1/p" "$settings" | sed 's/\\\(["\\]\)/\1/g'
}

fire() {
  cwd=$(printf %s "$PWD" | sed 's/["\\]/\\&/g')
  printf '{"session_id":"%s","transcript_path":"/nowhere/%s.jsonl","cwd":"%s","hook_event_name":"%s"%s}' \
    "$session" "$session" "$cwd" "$1" "$2" | sh -c "$(hook "$1")"
}

fire SessionStart ',"source":"startup"'
if [ -n "$STAND_IN_DOES" ]; then
  sh -c "$STAND_IN_DOES"
  fire Stop ',"stop_hook_active":false'
fi
[ -z "$STAND_IN_ENDS" ] || exit "$STAND_IN_ENDS"
# It ends with its pane.
exec cat
