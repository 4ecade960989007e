#!/usr/bin/env bash
# Packs the project and the device library, installs each package in a temporary folder, and tries them.
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
DATA_DIR="$there/data" ./node_modules/.bin/twinkeep token --sub user --new-key | grep -q '^ey'
ls ./node_modules/twinkeep/dist/database-pglite-*.tar.gz >/dev/null
node --input-type=module -e "
  const { connectDevice } = await import('twinkeep/device');
  if (typeof connectDevice !== 'function') throw new Error('the device library is missing');
"
for page in console/index reference/rest reference/events reference/graphql; do test -s "./node_modules/twinkeep/dist/$page.html"; done
for licenses in console/licenses.md reference/licenses.md reference/licenses-of-swagger-ui.txt; do test -s "./node_modules/twinkeep/dist/$licenses"; done
# What it consists of, also the libraries of the pages.
node -e "
  const names = require('./node_modules/twinkeep/dist/sbom.cdx.json').components.map(({ name }) => name);
  for (const name of ['express', 'react', 'swagger-ui-dist']) if (!names.includes(name)) throw new Error('the SBOM lacks ' + name);
"
# The libraries of the pages are part of the package, not installed with it.
for library in @scarf swagger-ui-dist graphiql react monaco-editor; do test ! -e "./node_modules/$library"; done
node --input-type=module -e "
  const { fork } = await import('node:child_process');
  const { once } = await import('node:events');
  const options = { env: { SIDECAR_ADDRESS: '127.0.0.1:0' }, execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] };
  const child = fork('./node_modules/twinkeep/dist/sidecar/main.js', options);
  const [message] = await once(child, 'message');
  if (!/:[0-9]+$/.test(message.listening)) throw new Error('the sidecar does not listen');
  child.disconnect();
"
# The device library as a separate package: it needs nothing from a registry.
mkdir "$there/device-library"
library=$(cd "$here" && npm pack --silent --workspace @twinkeep/device --pack-destination "$there/device-library" | tail -n 1)
cd "$there/device-library"
npm init -y >/dev/null
npm install --offline --no-audit --no-fund --silent "./$library"
node --input-type=module -e "
  const { connectDevice } = await import('@twinkeep/device');
  const { fileStore } = await import('@twinkeep/device/store');
  const { fetchFirmware } = await import('@twinkeep/device/firmware');
  for (const part of [connectDevice, fileStore, fetchFirmware]) if (typeof part !== 'function') throw new Error('a part of the device library is missing');
"
echo 'the packages work'
