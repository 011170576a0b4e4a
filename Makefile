# A short front door over the CMake presets. `make` lists the targets.

# CUDA is built when nvcc and a GPU are here, or with FLA_CUDA=ON.
NVCC := $(or $(shell command -v nvcc 2>/dev/null),$(wildcard /usr/local/cuda/bin/nvcc))
FLA_CUDA ?= $(if $(and $(NVCC),$(wildcard /dev/nvidia0)),ON,OFF)
PRESET := $(if $(filter ON,$(FLA_CUDA)),cuda,cpu)
# Only for the GPUs that are here, where one is; otherwise for all architectures.
ARCHS := $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | tr -d . | sort -u | paste -sd';')
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
PYTHON := /usr/bin/python3

# One process a program under the sanitizers: starting one a test would take longer than the tests.
CPP_TESTS := fla_core_tests fla_support_tests fla_ref_tests fla_ops_tests fla_perf_tests fla_compare_tests \
             fla_hardware_tests fla_host_tests fla_adapters_tests fla_ncu_tests fla_cpu_tests fla_modules_tests \
             fla_cpu_modules_tests fla_model_tests fla_model_io_tests fla_model_data_tests fla_model_comm_tests
ASAN_ENV := OMP_WAIT_POLICY=passive UBSAN_OPTIONS=print_stacktrace=1 \
  ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1

# $(call configure,folder,cmake arguments): quiet unless it fails.
configure = mkdir -p $(1) && cmake $(2) > $(1)/configure.log || { cat $(1)/configure.log; exit 1; }

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help deps deps-lint configure build bench test test-all asan lint format mutants fuzz cuda gpu-bundle install clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

deps:
	@tools/install_deps.sh

deps-lint:
	@tools/install_deps.sh --lint

configure: deps
	@echo "== configure (preset $(PRESET))"
	@$(call configure,build,--preset $(PRESET) $(if $(ARCHS),-DFLA_CUDA_ARCHS='$(ARCHS)'))

build: configure ## Build everything into build/
	@echo "== build"
	@cmake --build --preset $(PRESET) -j $(JOBS)

bench: configure ## Install what is missing, build, and time chunk_kda forward
	@echo "== build"
	@cmake --build --preset $(PRESET) -j $(JOBS) --target fla
	@echo "== build/fla bench ops --op chunk_kda --modes fwd"
	@build/fla bench ops --op chunk_kda --modes fwd

test: build ## Install what is missing, build, and run every test that is not slow
	@echo "== test"
	@ctest --preset $(PRESET) -j $(JOBS) --progress -LE slow

test-all: build ## The same with the slow tests
	@echo "== test (all)"
	@ctest --preset $(PRESET) -j $(JOBS) --progress

asan: deps ## Build with the address and undefined-behaviour sanitizers and run the C++ tests
	@echo "== asan: build into build-asan/"
	@$(call configure,build-asan,--preset cpu-asan)
	@cmake --build --preset cpu-asan -j $(JOBS) --target $(CPP_TESTS)
	@echo "== asan: test"
	@for program in $(CPP_TESTS); do echo "-- $$program"; \
	  seq 0 $$(($(JOBS) - 1)) | xargs -P $(JOBS) -I{} env $(ASAN_ENV) GTEST_TOTAL_SHARDS=$(JOBS) \
	    GTEST_SHARD_INDEX={} build-asan/$$program --gtest_brief=1 --gtest_filter='-*Slow*' || exit 1; done

lint: configure deps-lint ## Check format, layers, headers alone, and run clang-tidy on src/
	@echo "== lint: headers alone"
	@cmake --build --preset $(PRESET) -j $(JOBS) --target fla_headers_alone
	@$(PYTHON) tools/lint.py --build build --jobs $(JOBS)

format: deps-lint ## Format every C++ and CUDA file in place
	@$(PYTHON) tools/lint.py --fix

mutants: deps ## Apply each seeded fault of tests/mutants and check that its test fails
	@$(PYTHON) tests/mutants/run.py --jobs $(JOBS)

fuzz: deps-lint ## Run each libFuzzer target for FUZZ_SECONDS (20)
	@$(call configure,build-fuzz,--preset fuzz)
	@cmake --build --preset fuzz -j $(JOBS) --target fla_fuzz
	@for target in build-fuzz/fuzz_*; do echo "== $$target"; $$target -max_total_time=$(FUZZ_SECONDS) || exit 1; done

cuda: deps ## Compile the CUDA backend, its Blackwell code and the lab into build-cuda/ (no GPU needed)
	@echo "== cuda: compile for sm_90, and the K = 128 kernels for sm_100 and sm_103"
	@$(call configure,build-cuda,--preset cuda -B build-cuda -DFLA_CUDA_ARCHS=90)
	@cmake --build build-cuda -j $(JOBS) --target fla_cuda fla_cuda_blackwell fla_lab

gpu-bundle: deps ## Pack fla and fla_gpu_tests for an H200 without a compiler: build-bundle/fla-gpu-bundle.tar
	@echo "== gpu-bundle: build for sm_90 into build-bundle/"
	@$(call configure,build-bundle,--preset gpu-bundle)
	@cmake --build --preset gpu-bundle -j $(JOBS) --target fla fla_gpu_tests
	@$(PYTHON) tools/gpu_bundle.py build-bundle

install: build ## Install under PREFIX (/usr/local) with a CMake package
	@cmake --install build --prefix $(PREFIX) --strip

clean: ## Remove every build folder
	@rm -rf build build-*
