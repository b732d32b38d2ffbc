#!/usr/bin/env bash
# Fetches the public webhook payloads that are the real input of the tests and of make run, unless they are here.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

wanted=$PROJECT/tests/octokit
place=$TOOLS/octokit
payloads=$place/node_modules/@octokit/webhooks-examples

if [ -f "$payloads/api.github.com/index.json" ] && cmp -s "$wanted/package-lock.json" "$place/fetched.json"; then
    exit 0
fi
need node npm
say "fetching the webhook payloads with npm into ${place#"$PROJECT"/}"
rm -rf "$place"
mkdir -p "$place"
cp "$wanted/package.json" "$wanted/package-lock.json" "$place/"
# Without scripts: it is data.
(cd "$place" && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error) \
    || fail "npm could not fetch @octokit/webhooks-examples; look at its message above, then run this again"
[ -f "$payloads/api.github.com/index.json" ] || fail "the package has no api.github.com/index.json; is its version the one in tests/octokit?"
# Comes last: it says that all is here.
cp "$wanted/package-lock.json" "$place/fetched.json"
