#!/usr/bin/env bash
# Plays the unit tests and the suite again and again, with new seeds each time, until the time is over or one fails.
# SOAK_MINUTES says how long (60), SOAK_FILTER which tests (all). Before the rounds, processes share a store for two minutes,
# and whichever holds it is killed every two seconds.

source "$(dirname "${BASH_SOURCE[0]}")/project.sh"

need cargo cc node npm
minutes=${SOAK_MINUTES:-60}
case $minutes in '' | *[!0-9]*) fail "SOAK_MINUTES is $minutes; give whole minutes" ;; esac

step "real input" scripts/payloads.sh
step "building" cargo build "${BUILD[@]}" --lib --bins --examples
step "building the tests" cargo test "${BUILD[@]}" --lib --tests --no-run
step "processes at one store, the owner killed every two seconds for two minutes" \
    env SEMEL_ATTACH_SECONDS=120 cargo test --quiet "${BUILD[@]}" --test suite -- attach::crowd --nocapture
round=0
until [ "$round" != 0 ] && [ "$SECONDS" -ge $((minutes * 60)) ]; do
    round=$((round + 1))
    step "round $round" cargo test --quiet "${BUILD[@]}" --lib --tests -- ${SOAK_FILTER:+"$SOAK_FILTER"}
done
say "$round rounds in $((SECONDS / 60)) minutes, all passed"
