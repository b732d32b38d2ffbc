# What can be done here. Each target is one script: it checks the tools it needs, and sets up what it can by itself.

.PHONY: help run test lint bench soak clean

help:
	@echo "make run    build semel and show it at work: the demo, then a dedup over real webhook payloads"
	@echo "make test   all tests, with all set-up"
	@echo "make lint   clippy over the benchmarks too, and advisories about packages"
	@echo "make bench  measure semel beside its rivals (BENCH=\"question...\" for some, BENCH=--quick for a look)"
	@echo "make soak   the crash and fault tests again and again with new seeds (SOAK_MINUTES=60)"
	@echo "make clean  remove all that was built, fetched or set up here"

run:
	@scripts/run.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

bench:
	@scripts/bench.sh $(BENCH)

soak:
	@scripts/soak.sh

clean:
	@scripts/clean.sh
