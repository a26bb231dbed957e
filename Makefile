# Everything a newcomer needs: `make demo`, `make test`. `make help` lists the rest.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# A newer cmake than the system's lands here if one is needed (see scripts/setup.sh).
export PATH := $(CURDIR)/target/tools/bin:$(PATH)
# Faiss trains with OpenMP; its threads should sleep, not spin, between loops.
export OMP_WAIT_POLICY := passive
# Documentation warnings fail `make doc`; compiler and clippy warnings fail `make lint`.
DOC_FLAGS := -D warnings

.PHONY: help setup demo test fmt lint unit loom doc package portable examples topologies clean

help: ## Show this list.
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/' | expand -t 20

setup: ## Install the system packages that are missing (Debian, Ubuntu); says what it installs.
	@scripts/setup.sh

demo: setup ## Build, then run the whole thing on real vectors: about a minute after the build.
	cargo build --release --locked -p chiplet-cli
	cargo run --release --locked --features hnsw,faiss --example demo

test: setup fmt lint portable unit loom doc package ## Everything that must pass before a change lands.
	@echo "make test: all passed"

fmt: ## Check the formatting.
	cargo fmt --all --check

lint: setup ## Clippy over every crate, target and feature; warnings are errors.
	cargo clippy --locked --workspace --all-targets --all-features -- -D warnings

portable: ## The library without any C library, as `default-features = false` gives it.
	cargo check --locked -p chiplet --no-default-features
	cargo check --locked -p chiplet --no-default-features --features hnsw

unit: setup ## All tests and doc tests; builds the examples.
	cd datasets/glove-50d && sha256sum --check --quiet SHA256SUMS
	cargo test --locked --workspace --all-features

loom: ## Model-check the wake-up handshake, completion and cancellation as shipped.
	RUSTFLAGS="--cfg chiplet_loom -C debug-assertions" CARGO_TARGET_DIR=target/loom LOOM_MAX_PREEMPTIONS=2 \
	  cargo test --locked --release -p chiplet-executor --no-default-features --lib loom

doc: setup ## The documentation, without warnings.
	RUSTDOCFLAGS="$(DOC_FLAGS)" cargo doc --locked --workspace --all-features --no-deps

package: setup ## Check that every crate would publish as it is.
	cargo package --locked --workspace --allow-dirty --no-verify --quiet

examples: setup ## Build the examples alone.
	cargo build --locked --workspace --all-features --examples

topologies: setup ## Compare our reading of saved machines with lstopo: TREES=DIR, see tests/topologies.
	cargo build --locked -p chiplet-cli
	tests/topologies/compare.py --chiplet target/debug/chiplet $(TREES)

clean: ## Remove everything that was built.
	cargo clean
