# Short names for scripts/*.sh, where the work is done. `make help` lists them.
# BUILD: the build folder. CC: the compiler. PREFIX, DESTDIR: where install puts things.
BUILD        ?= build
PREFIX       ?= /usr/local
DESTDIR      ?=
FUZZ_SECONDS ?= 600
ifeq ($(origin CC),default)
CC := gcc
endif
export BUILD PREFIX DESTDIR FUZZ_SECONDS CC CHECKOUT

.PHONY: all demo test test-tiny test-loaded bench conformance poptorch-conformance check sanitize fuzz sweep threads valgrind ci container-check format install uninstall clean help

all: ## build the library, the tools and the examples
	@scripts/build.sh

demo: ## train a network and let it read a digit
	@scripts/demo.sh

test: ## run every test
	@scripts/test.sh

test-tiny: ## run the few tests that take seconds
	@scripts/test.sh tiny

test-loaded: ## run every test on a busy machine: LOAD (8 for each core) processes that compute
	@scripts/test_loaded.sh

conformance: ## run the public ONNX suite
	@scripts/conformance.sh

poptorch-conformance: ## run the public PopTorch tests from the checkout CHECKOUT
	@scripts/poptorch_conformance.sh

bench: ## run the benchmarks
	@scripts/bench.sh

check: ## format, static analysis, clang build, exports, layers, hygiene
	@scripts/check.sh

sanitize: ## tests and examples under ASan + UBSan, then TSan
	@scripts/sanitize.sh

fuzz: ## FUZZ_SECONDS (600) for each fuzzer
	@scripts/fuzz.sh

sweep: ## SWEEP_SECONDS (600) of random uses of every op
	@scripts/sweep.sh

threads: ## ops, examples, training and ipu check on 1 to 256 threads
	@scripts/threads.sh

valgrind: ## the examples under valgrind
	@scripts/valgrind.sh

ci: ## all of the above, with half a minute per fuzzer
	@scripts/ci.sh

container-check: ## the steps of containers/Dockerfile, without Docker (as root)
	@scripts/container_check.sh

format: ## format all C files in place
	@scripts/format.sh

install: ## install to DESTDIR/PREFIX (/usr/local)
	@scripts/install.sh

uninstall: ## remove exactly what install put there
	@scripts/uninstall.sh

clean: ## remove the build folder
	@rm -rf -- "$(BUILD)"

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-21s %s\n", $$1, $$2 }' Makefile
