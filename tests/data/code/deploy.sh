#!/usr/bin/env bash
# Puts a release on the servers.
set -euo pipefail

SERVERS=(
  one
  two
)

# Copies the files to a server.
copy_files() {
  local server=$1
  scp -r build "$server:"
}

function restart { ssh "$1" sudo systemctl restart app; }

if [[ -z "${1:-}" ]]; then
  log::usage() {
    echo "deploy.sh VERSION"
  }
  log::usage
fi

for server in "${SERVERS[@]}"; do
  copy_files "$server" && restart "$server"
done
