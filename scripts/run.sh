#!/usr/bin/env bash
# Shows what semel does: the six sources of duplicates, then the webhook payloads of a public package, each delivered twice.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cc node npm
step "building the semel command" cargo build "${BUILD[@]}"
scripts/payloads.sh

semel=$(cargo metadata --locked --no-deps --format-version 1 \
    | node -p 'JSON.parse(require("fs").readFileSync(0, "utf8")).target_directory')/debug/semel
scratch=$(mktemp -d "${TMPDIR:-/tmp}/semel-run.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

say "semel demo: where duplicates come from, each played for real"
"$semel" demo

deliveries() {
    node "$PROJECT/tests/octokit/deliveries.mjs" "$TOOLS/octokit/node_modules/@octokit/webhooks-examples" "$1"
}

say "semel dedup: every webhook payload twice, the second time with members reordered and numbers spelled otherwise"
{ deliveries as-is; deliveries rewritten; } > "$scratch/deliveries.ndjson"
"$semel" dedup --store "$scratch/store" --key .id --payload .payload < "$scratch/deliveries.ndjson" > "$scratch/first.ndjson"
deliveries as-is | cmp - "$scratch/first.ndjson" || fail "what came through is not each payload once"

say "semel dedup: the same deliveries once more, with one field changed in each; semel leaves them out and says which field"
status=0
deliveries changed | "$semel" dedup --store "$scratch/store" --key .id --payload .payload > "$scratch/changed.ndjson" 2> "$scratch/said" || status=$?
{ head -n 3 "$scratch/said"; echo "   ..."; tail -n 1 "$scratch/said"; } >&2
[ "$status" = 65 ] || fail "mismatches end with exit status 65, and this was $status"
[ ! -s "$scratch/changed.ndjson" ] || fail "a changed payload came through"
