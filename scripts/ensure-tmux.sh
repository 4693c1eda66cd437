#!/bin/sh
# tmux comes from the system. Where it is missing it is installed if that needs no password; otherwise the command is
# printed and the run stops.
command -v tmux >/dev/null 2>&1 && exit 0

if command -v apt-get >/dev/null 2>&1; then
  refresh="apt-get update -qq" install="apt-get install -y -qq tmux"
elif command -v dnf >/dev/null 2>&1; then
  refresh=true install="dnf install -y -q tmux"
elif command -v apk >/dev/null 2>&1; then
  refresh=true install="apk add --quiet tmux"
elif command -v brew >/dev/null 2>&1; then
  refresh=true install="brew install --quiet tmux"
else
  echo "overseer needs tmux: install it with your system's package manager, then run this again." >&2
  exit 69
fi

case $install in
  brew*) as="" ;;
  *)
    if [ "$(id -u)" = 0 ]; then
      as=""
    elif sudo -n true 2>/dev/null; then
      as="sudo -n"
    else
      echo "overseer needs tmux: run 'sudo $install', then run this again." >&2
      exit 69
    fi
    ;;
esac

echo "Installing tmux: $as $install" >&2
$as $refresh >&2 && $as $install >&2 && command -v tmux >/dev/null 2>&1 && exit 0
echo "tmux could not be installed: run '$install' by hand, then run this again." >&2
exit 69
