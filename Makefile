# Everything a newcomer needs: `make demo`, `make check`, `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A newer cmake than the system's lands here if one is needed (see scripts/setup.sh).
export PATH := $(CURDIR)/target/tools/bin:$(PATH)
# Faiss trains with OpenMP; its threads should sleep, not spin, between loops.
export OMP_WAIT_POLICY := passive
# Documentation warnings fail `make doc`; compiler and clippy warnings fail `make lint`.
DOC_FLAGS := -D warnings
# Instruction counts need a runner of the very version that the benchmark is built with.
GUNGRAUN = $(shell sed -nE '/^name = "gungraun"$$/{n;s/^version = "(.*)"/\1/p}' Cargo.lock)
# The oldest Rust that is supported, as the name of a toolchain.
MSRV = $(shell sed -nE 's/^rust-version = "(.*)"/\1.0/p' Cargo.toml)
# Leaves out what has `publish = false`.
PUBLISH := cargo publish --workspace --dry-run --locked --allow-dirty
# Evidence whose tests need not pass before each change lands: `make nightly` runs them.
LAB := caches hwloc learning paper probe sim validate vm
# Where the libraries are checked to compile, though nobody has run them there.
TARGETS ?= aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-pc-windows-msvc
PYTHON_TARGETS ?= aarch64-unknown-linux-gnu aarch64-apple-darwin x86_64-apple-darwin
# What `make semver` compares with.
BASE ?= origin/main
# How thoroughly the model checkers look; `make verify` asks for more.
PREEMPTIONS ?= 2
SCHEDULES ?= 2000
# What test programs are told besides: --nocapture shows what they print.
SHOW ?=
# What the rows of the paper's tables are multiplied by where they are measured: 1 takes hundreds of gigabytes.
PAPER_SIZE ?= 0.01
# How large a comparison on emulated caches is.
SIZE ?= full
# Cases that each property is tried with, seconds of the soak test, and seconds that each target is fuzzed.
PROPERTY_CASES ?= 10000
SOAK_SECONDS ?= 600
FUZZ_SECONDS ?= 60
CRITERION_SHORT := --warm-up-time 0.3 --measurement-time 1 --noplot

.PHONY: help setup demo serve check test nightly clients lab emulated simd image wheel python python-units \
  python-bench ray ray-test ray-units server-bench pgvector peers keyed verify fmt lint cold-build unit properties \
  soak fuzz tsan asan faults vm-test caches rules validate loom shuttle doc pack package portable msrv targets deny \
  semver bench dist examples topologies clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

setup: ## Install the system packages that are missing (Debian, Ubuntu); says what it installs.
	@scripts/setup.sh

demo: ## Run the whole thing on real vectors: three to four minutes on 2 cores with the build; needs Rust alone.
	cargo run --release --locked -p chiplet-demo

serve: setup ## Run chiplet-server with sample data: gRPC on 127.0.0.1:6334, a page on http://127.0.0.1:6335/.
	cargo run --release --locked -p chiplet-server -- --sample

check: ## The library alone: format, clippy, all tests with fewer cases; three to five minutes on 2 cores, ten where nothing is built. Needs Rust alone.
	cargo fmt --all --check
	cargo clippy --locked --all-targets -- -D warnings
	PROPTEST_CASES=64 cargo test --locked

test: ## Everything that must pass before a change lands; a table of times at the end.
	@scripts/stages.sh setup fmt lint unit loom shuttle doc pack python-units
	@echo "make test: all passed"

nightly: ## Tests of the evidence, other toolchains, emulators, browsers, clusters; a table at the end, also after a failure.
	@KEEP_GOING=1 scripts/stages.sh setup fmt lab cold-build portable simd emulated msrv targets package deny clients image python ray-units

fmt: ## Check the formatting, and who uses whom.
	cargo fmt --all --check
	@scripts/house.py --check >/dev/null || { scripts/house.py; exit 1; }

lint: setup ## Clippy over every crate, target and feature; warnings are errors.
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings

cold-build: setup ## The server's build script as on a new machine, whose cargo cache is empty.
	@scripts/cold-build.sh

targets: ## The libraries and the Python package for other systems, as far as a compiler checks it: TARGETS="..", PYTHON_TARGETS="..".
	rustup target add $(sort $(TARGETS) $(PYTHON_TARGETS))
	set -e; export CARGO_TARGET_DIR=target/targets RUSTFLAGS="-D warnings"; \
	for target in $(TARGETS); do \
	  cargo check --locked --target $$target --no-default-features --features chiplet/hnsw_rs \
	    -p chiplet -p chiplet-advise -p chiplet-probe -p chiplet-sim; \
	done; \
	for target in $(PYTHON_TARGETS); do \
	  cargo check --locked --target $$target --lib --manifest-path bindings/python/Cargo.toml; \
	done

deny: ## Licences, advisories and sources of all dependencies (deny.toml); fetches RustSec's advisories.
	@cargo-deny --version >/dev/null 2>&1 || cargo install --quiet --locked --root target/tools cargo-deny
	cargo deny --locked check $(ARGS)

semver: ## What a change breaks for users since BASE=origin/main, or the tag of a release.
	@cargo-semver-checks --version >/dev/null 2>&1 || cargo install --quiet --locked --root target/tools cargo-semver-checks
	cargo semver-checks --workspace --baseline-rev $(BASE)

msrv: setup ## What is published, built by the oldest Rust that it claims to need (rust-version in Cargo.toml).
	@rustup run $(MSRV) rustc --version >/dev/null 2>&1 || rustup toolchain install $(MSRV) --profile minimal
	CARGO_TARGET_DIR=target/msrv cargo +$(MSRV) check --locked -p chiplet -p chiplet-cli \
	  --features chiplet/hwloc,chiplet/hnsw_rs,chiplet-cli/hwloc,chiplet-cli/hdf5

portable: ## The library without any C library, as it is by default.
	cargo check --locked -p chiplet
	cargo check --locked -p chiplet --features hnsw_rs

unit: setup ## Tests and doc tests of the library, the applications and what they use; builds the examples. The rest: `make lab`.
	cd datasets/glove-50d && sha256sum --check --quiet SHA256SUMS
	cargo test --locked --workspace $(LAB:%=--exclude chiplet-%) --all-features --no-fail-fast
	@# What the order of service promises, in virtual time.
	cargo test --locked --all-features -p chiplet-sim --lib promises

lab: setup ## Tests of the evidence. What needs an emulator is ignored or says that it is skipped: `make emulated`.
	cargo test --locked --all-features $(LAB:%=-p chiplet-%) --no-fail-fast
	cargo test --locked --all-features -p chiplet-cli --test bench -- --ignored

emulated: setup ## The tests that need QEMU: machines that it boots, and emulated caches.
	@command -v qemu-x86_64 >/dev/null || scripts/setup.sh qemu-user
	@scripts/vm-kernel.sh
	cargo test --locked --all-features -p chiplet-vm -p chiplet-caches -p chiplet-advise
	cargo test --locked --all-features -p chiplet-vm -p chiplet-caches -p chiplet-advise --test small -- --ignored

simd: setup ## The kernels' tests with less than the widest vector instructions.
	for simd in portable avx2; do \
	  CHIPLET_SIMD=$$simd cargo test --locked --workspace --all-features --test it --quiet -- flat:: hnsw:: hnsw_rows:: hnswlib::; \
	  CHIPLET_SIMD=$$simd cargo test --locked --workspace --all-features --lib --quiet -- kernel hnsw flat; \
	done

clients: setup ## chiplet-server, driven by the stock Python client and its page by a browser.
	@scripts/clients.sh

wheel: ## Build the Python wheel into target/python/dist, and no more: four minutes on 2 cores, 15 MB to fetch and 100 for zig.
	@scripts/wheel.sh

image: ## The Docker image of chiplet-server; without a Docker engine its steps, and what can be checked of the rest.
	@scripts/image.sh

python: ## Build the Python wheel and test it in clean environments, on every Python from 3.11 on.
	@scripts/python.sh $(ARGS)

python-units: ## The Python package, compiled as for tests, on the first Python alone: its tests and types.
	@scripts/python.sh --units $(ARGS)

python-bench: ## What Python costs beside Rust, hnswlib and usearch; needs `make wheel` first. ARGS="rounds seconds".
	@scripts/python-bench.sh $(ARGS)

ray: ## A cluster by Ray Serve: three nodes here, filled, asked and measured. ARGS=--stay leaves it to you.
	@scripts/ray.sh run $(ARGS)

ray-test: ## Test that cluster: answers, kills of replicas and nodes, versions, overload. Minutes.
	@scripts/ray.sh test $(ARGS)

ray-units: ## Of these the tests that need no cluster.
	@scripts/ray.sh units $(ARGS)

server-bench: setup ## Load on chiplet-server against a tokio + rayon baseline: overload, a noisy neighbour, loading, idle.
	cargo bench --locked -p chiplet-server --bench load
	cargo bench --locked -p chiplet-server --bench load -- noisy --reserve 1

pgvector: setup ## chiplet-server beside PostgreSQL with pgvector (from PyPI), at equal recall: two minutes; ARGS=--help.
	@scripts/pgvector.sh --stock $(ARGS)

vm-test: setup ## Boot the tests, and a count of cache misses, on a kernel that shows 2 x 8 cores, or VM=large: 12 x 8 (QEMU, emulated).
	@scripts/vm-kernel.sh
	cargo test --locked -p chiplet-vm --features hwloc --test vm -- $(VM)
	cargo test --locked -p chiplet-advise --test kernel
	cargo build --locked -p chiplet-caches --bins --examples
	cargo run --locked --quiet -p chiplet-caches -- vm $(VM)

caches: ## The shipped executor on 96 modelled cores with emulated caches (QEMU): half an hour; SIZE=small a minute; SIZE=bench; ARGS=--help.
	@command -v qemu-x86_64 >/dev/null || scripts/setup.sh qemu-user
	cargo build --release --locked -p chiplet-caches --bins --examples
	target/release/chiplet-caches control
	target/release/chiplet-caches run --shape $(SIZE) $(ARGS)

paper: ## The claims of arXiv 2605.10090 beside the simulator's figures: results/lab/2026-11/paper.md; twenty minutes; MACHINE=this measures here; ARGS=--help.
ifeq ($(MACHINE),this)
	$(MAKE) setup
	cargo build --release --locked -p chiplet-cli --features faiss
	@mkdir -p target/paper/img && cp results/lab/2026-11/paper.json target/paper/paper.json
	target/release/chiplet bench --workload paper-hnsw --size $(PAPER_SIZE) --sweep 50 --json target/paper/hnsw.json \
	  --strategy round-robin,global-steal,ccd-aware-bytes,ccd-aware
	target/release/chiplet bench --workload paper-ivf --size $(PAPER_SIZE) --sweep 50 --json target/paper/ivf.json \
	  --strategy fork-join,global-steal,ccd-aware-bytes,ccd-aware
	cargo run --release --locked --quiet -p chiplet-paper -- --kept --into target/paper \
	  --evidence target/paper/hnsw.json --evidence target/paper/ivf.json $(ARGS)
else
	cargo run --release --locked --quiet -p chiplet-paper -- $(ARGS)
endif

rules: ## What each rule and constant of the policy earns in the simulator: seven hours on two cores, three with ARGS=--seeds=1; goes on where it was; ARGS=--help.
	cargo run --release --locked --quiet -p chiplet-rules -- run $(ARGS)

validate: setup ## The simulator beside emulated caches, the real executor and cachegrind: a quarter of an hour; QUICK=1 a few minutes; ARGS=--help.
	@command -v qemu-x86_64 >/dev/null || scripts/setup.sh qemu-user || echo "validate: no qemu-x86_64"
	@command -v valgrind >/dev/null || scripts/setup.sh valgrind || echo "validate: no valgrind"
	cargo build --release --locked -p chiplet-cli
	cargo build --release --locked -p chiplet-caches -p chiplet-validate --bins --examples
	target/release/chiplet-validate $(if $(QUICK),--quick) $(ARGS)

loom: ## Model-check the wake-up handshake, completion and cancellation as shipped: all interleavings of small machines.
	LOOM_MAX_PREEMPTIONS=$(PREEMPTIONS) scripts/model.sh loom $(SHOW)

shuttle: ## Model-check the whole executor as shipped: random schedules, SCHEDULES=2000 by each of two methods.
	CHIPLET_SCHEDULES=$(SCHEDULES) scripts/model.sh shuttle $(SHOW)

verify: setup ## Everything that proves the promises, ten minutes of soak included: about an hour, half an hour more where nothing is built; a table at the end.
	@scripts/verify.sh

tsan: setup ## The test suite under ThreadSanitizer.
	@scripts/sanitize.sh thread

asan: setup ## The test suite under AddressSanitizer, with leaks.
	@scripts/sanitize.sh address hnsw_rs

faults: ## Refused threads, pinning, files and memory, injected for real.
	cargo test --locked -p chiplet --no-default-features --test faults -- --nocapture

properties: setup ## The simulated promises, and property tests of policy, topology, probe and advice at 10,000 cases each: PROPERTY_CASES=10000.
	PROPTEST_CASES=$(PROPERTY_CASES) cargo test --locked --release -p chiplet-policy -p chiplet-topology -p chiplet-probe -p chiplet-sim \
	  -p chiplet-advise --lib --test it --test policy --test probe

soak: ## Ten minutes of everything at once on a made-up machine of 96 cores: SOAK_SECONDS=600.
	CHIPLET_SOAK_SECONDS=$(SOAK_SECONDS) \
	  cargo test --locked --release -p chiplet --no-default-features --test soak -- --nocapture

doc: ## The library's documentation, without warnings and dead links.
	@# Rustdoc links to a crate only if the crate's folder is there, and cargo removes a folder before it documents the
	@# crate anew. So all folders are made first, and crates are documented one after another.
	@mkdir -p $(patsubst crates/%,target/doc/chiplet_%,$(wildcard crates/*))
	RUSTDOCFLAGS="$(DOC_FLAGS)" cargo doc --locked --all-features --no-deps --jobs 1
	@scripts/links.py target/doc/chiplet*

pack: setup ## Pack every crate that is published, without building the packages.
	CARGO_TARGET_DIR=target/packages $(PUBLISH) --no-verify --quiet

package: setup ## Pack every crate that is published, and build each from its package alone.
	CARGO_TARGET_DIR=target/packages $(PUBLISH)

bench: setup ## Run the short set of benchmarks and write target/bench/report.html.
	@scripts/setup.sh valgrind
	@mkdir -p target/bench
	@echo "bench: building (the first time, Faiss too)"
	@gungraun-runner --version 2>/dev/null | grep -qF $(GUNGRAUN) || \
	  cargo install --quiet --locked --root target/tools gungraun-runner --version $(GUNGRAUN)
	cargo build --release --locked -p chiplet-cli --features faiss
	cargo bench --locked --no-run
	@echo "bench: instructions of a submit, from 1 to 10,000 tables and from 1 to 64 domains"
	cargo bench --locked --bench growth
	@echo "bench: memory of an idle table"
	cargo test --locked --release --test allocations memory:: -- --nocapture
	@echo "bench: chiplet against other pools, empty and 1 us tasks"
	cargo bench --locked --bench peers -- --json $(CURDIR)/target/bench/peers.json
	@echo "bench: a remap of 10,000 tables over 64 domains"
	cargo bench --locked --bench remap -- --noplot
	@echo "bench: round trip and throughput by strategy"
	cargo bench --locked --bench overhead -- $(CRITERION_SHORT)
	@echo "bench: split against unsplit, and no regret where there is nothing to gain"
	cargo bench --locked -p chiplet-baselines --bench split -- $(CRITERION_SHORT)
	@echo "bench: 16 concurrent clients on one IVF table"
	cargo run --release --locked --quiet -p chiplet-cli --features faiss -- bench --kind ivf --level l3 --tables 1 --rows 200000 \
	  --factory IVF512,Flat --nprobe 32 --clients 16 --strategy round-robin,openmp,ccd-aware \
	  --json target/bench/ivf.json
	@echo "bench: 32 graphs, saturated, and latency against load"
	cargo run --release --locked --quiet -p chiplet-cli --features faiss -- bench --tables 32 --duration 1 --warmup 0.3 \
	  --strategy rayon,global-steal,spawn-blocking,ccd-aware \
	  --json target/bench/saturated.json --report target/bench/report.html
	@echo "bench: done; look at target/bench/report.html"

dist: ## The chiplet command as one static file, target/dist/chiplet: copy it to a server and run it there (Linux, x86-64).
	RUSTFLAGS="-C target-feature=+crt-static" CARGO_PROFILE_RELEASE_STRIP=symbols \
	  cargo build --release --locked -p chiplet-cli --target x86_64-unknown-linux-gnu
	@mkdir -p target/dist
	@cp target/x86_64-unknown-linux-gnu/release/chiplet target/dist/chiplet
	@ls -lh target/dist/chiplet

peers: setup ## Our tables against hnswlib, Faiss, glass, SymphonyQG, ScaNN and others: hours; QUICK=1 a few minutes; ARGS=--help.
	cargo build --release --locked -p chiplet-cli --features faiss
	@scripts/peers.sh $(if $(QUICK),--quick) $(ARGS)

keyed: setup ## KeyedRows against maps and stores sharding, Cube's report over gRPC: a quarter of an hour, and half an hour to compile RocksDB; ARGS=--help.
	@scripts/keyed.sh $(ARGS)

fuzz: setup ## Fuzz everything that reads outside input: FUZZ_SECONDS=60 for each target.
	@cargo-fuzz --version >/dev/null 2>&1 || cargo install --quiet --locked --root target/tools cargo-fuzz
	@scripts/fuzz.sh $(FUZZ_SECONDS)

examples: setup ## Build the examples alone.
	cargo build --locked --workspace --all-features --examples

topologies: setup ## Compare our reading of saved machines with lstopo: TREES=DIR, see tests/topologies.
	@command -v lstopo >/dev/null || scripts/setup.sh hwloc-nox
	cargo build --locked -p chiplet-cli --features hwloc
	tests/topologies/compare.py --chiplet target/debug/chiplet $(TREES)

clean: ## Remove everything that was built.
	cargo clean
