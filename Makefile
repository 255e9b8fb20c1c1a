# Targets of ./dev, which installs what they need. `make generate` compiles the
# eBPF programs; everything after it needs Go only.

GO       ?= go
BPF_CLANG ?= $(shell command -v clang-19 || command -v clang)
BPF_STRIP ?= $(shell command -v llvm-strip-19 || command -v llvm-strip)
VERSION  := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMIT   := $(shell git rev-parse HEAD 2>/dev/null)
ARGS     ?=

export CGO_ENABLED = 0
export BPF_CLANG BPF_STRIP

bpf_sources := $(wildcard bpf/*.c bpf/*.h bpf/algo/*.h bpf/include/asm/*.h)
generators  := $(shell grep -rl --include=*.go '^//go:generate go tool bpf2go' internal cmd 2>/dev/null) internal/subsystem/fastpath/reasons.go.in
# Architectures that a release is built for; `make cross` proves that they compile.
platforms   := amd64 arm64 arm mips mipsle ppc64le riscv64

procbench_sources := $(wildcard procbench/*.[ch] bpf/*.h bpf/algo/*.h) scripts/procbench.sh
arch        := $(shell $(GO) env GOARCH 2>/dev/null)

# Without make's own rules: one of them would make image/packages of image/packages.sh when that is newer.
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules

.PHONY: build generate procbench procbench-cross check test lint demo bench image test-image test-campus-image deb test-deb cross test-arch clean

build: bin/minne

bin/minne: generate $(shell find cmd internal -name '*.go' 2>/dev/null) go.mod
	$(GO) build -trimpath -ldflags '-s -w -X main.release=$(VERSION) -X main.commit=$(COMMIT)' -o $@ ./cmd/minne

generate: build/generated build/procbench/embedded-$(arch)

# minne takes minne-procbench in, which it runs for `minne bench platform`.
build/procbench/embedded-%: $(procbench_sources)
	@mkdir -p build/procbench
	sh scripts/procbench.sh --embed $*
	@touch $@

# The program by itself, for machines where minne does not run.
procbench: build/procbench/minne-procbench-$(arch)

procbench-cross: $(platforms:%=build/procbench/minne-procbench-%)

build/procbench/minne-procbench-%: $(procbench_sources)
	sh scripts/procbench.sh $* $@

build/generated: $(bpf_sources) $(generators)
	@mkdir -p build
	$(GO) generate ./...
	@touch $@

lint: generate
	@GO="$(GO)" sh scripts/lint.sh

# Cached results count: these tests depend on the tree alone. A test that needs root ends in AsRoot.
check: lint
	@packages=$$(GO="$(GO)" sh scripts/unit-packages.sh) && $(GO) test -short -skip 'AsRoot$$' $$packages $(ARGS)

# Inputs are counted, not seconds: at the end of a time Go may call the input
# that it was just trying a failure ("context deadline exceeded").
FUZZ := $(GO) test -run '^$$' -fuzzminimizetime=20x -fuzz

# Packages that take minutes begin first: at the end one of them would keep one CPU idle.
longest := ./test/uml ./cmd/minne ./internal/subsystem/fastpath ./test/kinds ./test/stateful ./test/docs

# -count=1: what these tests say depends on the kernel and the daemons, which
# the cache of test results does not know.
test: lint build build/minne.img
	$(GO) test -count=1 -p 2 -timeout 20m $(longest) ./... $(ARGS)
	$(GO) test -count=1 -timeout 20m -tags image -run 'TestRouter$$|TestUEFI$$|TestListing$$' ./test/image # boots by both firmwares; the rest: ./dev test-image
	$(GO) test -count=1 -v -run TestVerifier ./internal/subsystem/fastpath
	MINNE_TEST_UML=1 $(GO) test -count=1 -run 'TestStatelessVerdicts|TestSets$$|TestLimits$$' ./internal/subsystem/fastpath # no JIT, no BTF, aligned loads
	GOARCH=mips $(GO) build -o /dev/null ./cmd/minne # 32 bits and the other byte order; make cross compiles for all
	$(FUZZ)=FuzzParse -fuzztime=30000x ./internal/model/config
	$(FUZZ)=FuzzSecrets -fuzztime=20000x ./internal/model/config
	$(FUZZ)=FuzzCompile -fuzztime=300x ./internal/subsystem/fastpath/classify
	$(FUZZ)=FuzzRender -fuzztime=10000x ./internal/subsystem/routing

demo: build
	@exec bin/minne lab campus $(ARGS)

bench: build
	bin/minne bench fib
	bin/minne bench forward
	bin/minne bench daemon
	bin/minne bench policy
	bin/minne bench flow
	bin/minne lab headline

deb: generate
	@sh packaging/deb.sh $(ARGS)

# The roots of both Debians stay in build/deb for the next run.
# The image is made again when something in it has changed.
image_sources := $(shell find image -type f 2>/dev/null)

image: build
	@VERSION="$(VERSION)" sh image/build.sh $(ARGS)

build/minne.img: bin/minne $(image_sources)
	@VERSION="$(VERSION)" sh image/build.sh

build/minne-%.img: bin/minne $(image_sources)
	@VERSION="$(VERSION)" sh image/build.sh --with $*

test-image: build/minne.img build/minne-wifi.img
	$(GO) test -count=1 -v -timeout 120m -tags image ./test/image $(ARGS)

test-campus-image: build/minne.img
	$(GO) test -count=1 -v -timeout 30m -tags image -run 'TestCampusOnTheImage$$' ./test/campus $(ARGS)
	$(GO) test -count=1 -v -timeout 60m -tags image -run 'TestCards$$' ./test/image $(ARGS)

test-deb: generate
	$(GO) test -count=1 -v -timeout 40m -tags debian_roots ./test/deb $(ARGS)

# Other processors under QEMU: see docs/design/emulation.md. Half an hour and more.
test-arch: generate
	$(GO) test -tags arch -count=1 -v -p 1 -timeout 120m ./test/arch $(ARGS)

cross: generate
	@for a in $(platforms); do echo "linux/$$a"; GOARCH=$$a $(GO) build -o /dev/null ./cmd/minne || exit 1; done

clean:
	rm -rf bin build
	rm -f internal/lab/platform/native/minne-procbench-* internal/lab/platform/native/program_*.go
	find internal -name '*_bpfe[lb].go' -delete -o -name '*_bpfe[lb].o' -delete -o -name reasons_words.go -delete
