# Waits beside one Claude Code process and wakes it: `waiter.sh <worker|orchestrator> <root> <event>`, run as a hook
# with `asyncRewake`, for which exit code 2 begins a turn. A shell, because a Bun that does nothing takes ten times the
# memory. The door is a FIFO that is always open for reading while somebody waits behind it, so whoever brings mail and
# cannot open it knows that nobody does. See effects/waiters.ts for the other side.
role=$1
root=$2
event=$3

# In a worktree, the hooks of the main checkout fire beside the worker's own.
case $role in
  orchestrator) [ -z "$OVERSEER_AGENT_NAME$OVERSEER_TOKEN" ] || exit 0 ;;
  *) [ -n "$OVERSEER_TOKEN" ] || exit 0 ;;
esac
# Without a person at its terminal (claude -p) it is waited for: Claude Code would never begin.
[ "$CLAUDE_CODE_SESSION_ATTENDED$CLAUDE_CODE_ENTRYPOINT" = 1cli ] || exit 0

claude=$PPID
folder=$root/.overseer/waiters
door=$folder/$claude
cat >/dev/null # the payload: a prompt of any length may stand in it

has_parent() {
  if [ -r "/proc/$$/stat" ]; then
    read -r _ _ _ parent _ <"/proc/$$/stat"
  else
    parent=$(ps -o ppid= -p $$)
  fi
  [ "${parent// /}" = "$claude" ]
}

wake() {
  : >"$door.woken" # before nobody waits any more, so that whoever finds nobody knows why
  rm -f "$door.wake"
  echo "overseer: mail has come for you. It is shown beside this notice unless you have read it already." >&2
  exit 2
}

# The doors of processes that are gone, since numbers are used again, and whoever still waits behind one.
if [ "$event" = SessionStart ]; then
  for old in "$folder"/*; do
    pid=${old##*/}
    kill -0 "${pid%%.*}" 2>/dev/null && continue
    [ -p "$old" ] && [ ! -L "$old" ] && echo go 1<>"$old"
    rm -f "$old"
  done
fi

# Whoever waited at this door before is sent away; two that come at the same moment find out at their next look.
[ -d "$folder" ] && mkfifo -m 600 "$door.$$" 2>/dev/null || exit 0
exec 9<>"$door.$$"
[ -p "$door" ] && [ ! -L "$door" ] && exec 8<>"$door" && former=1
# Into a folder it would be moved instead of taking its place.
[ -d "$door" ] && { rm -f "$door" || rmdir "$door"; } 2>/dev/null
mv -f "$door.$$" "$door"
[ -n "$former" ] && echo go >&8
exec 8>&-
rm -f "$door.woken"

# Left by somebody who found nobody here; a prompt that shows the mail takes it away first.
[ -e "$door.wake" ] && wake

while :; do
  if read -r -t 20 word <&9; then
    [ "$word" = wake ] && wake
    exit 0
  fi
  [ "$door" -ef /dev/fd/9 ] || exit 0
  has_parent || {
    rm -f "$door" "$door.wake" "$door.woken"
    exit 0
  }
done
