#!/usr/bin/env bash
# Packs the project, installs the package somewhere else, and asks its binary and its device library for an answer.
set -euo pipefail
here=$(pwd)
there=$(mktemp -d)
trap 'rm -rf "$there"' EXIT
tarball=$(npm pack --silent --pack-destination "$there" | tail -n 1)
cd "$there"
npm init -y >/dev/null
npm install --no-audit --no-fund --silent "./$tarball"
export PATH="$here/node_modules/.bin:$PATH" # Node 24
./node_modules/.bin/twinkeep --version
./node_modules/.bin/twinkeep --help >/dev/null
DATA_DIR="$there/data" ./node_modules/.bin/twinkeep token --sub somebody | grep -q '^ey'
node --input-type=module -e "
  const { connectDevice } = await import('twinkeep/device');
  if (typeof connectDevice !== 'function') throw new Error('the device library is missing');
"
test -s ./node_modules/twinkeep/dist/console/index.html
echo 'the package works'
