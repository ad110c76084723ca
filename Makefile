# Needs make and python3 >= 3.11 with venv, nothing else. pip fetches uv into .tools, and uv the packages into .venv: all from
# the hash-locked files in requirements/. The second run costs nothing, and when .venv is up to date nothing is fetched.

PYTHON ?= python3
# One more than there are cores: some tests wait for a process or for Java.
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 1); test $$n -lt 4 && expr $$n + 1 || echo 4)
UV := .tools/bin/uv
VENV := .venv/bin
PUBLIC := router/__init__.py router/client/node.py router/transport/contract.py
REPORT := docs/measured.md

# uv installs into the environment named, whatever the shell around it has active, and never brings a Python of its own.
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS := true
# A simulated world repeats itself from its seed only if sets are walked in the same order.
export PYTHONHASHSEED := 0
# Each process that the tests start would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME UV_SYSTEM_PYTHON UV_PROJECT_ENVIRONMENT

INSTALL := $(UV) pip install -q --no-deps --no-build-isolation
QUIET := $(shell test -t 2 || echo -q)
SYNC := $(UV) pip sync $(QUIET) --require-hashes --compile-bytecode --build-constraints
OFFLINE := { echo "the packages could not be fetched: is there a network, and a package index that pip and uv are told of?" >&2; exit 1; }
LOCK_ONLY := $(UV) pip compile -q --universal --python-version 3.11 --upgrade \
	--generate-hashes --no-emit-index-url --custom-compile-command "make lock"
LOCK := $(LOCK_ONLY) pyproject.toml

# What a browser loads of others: copied by `make vendor` as npm hands it out, checked by the lock file's digests.
VENDOR := services/web/static/vendor
HASHES := _md.js _u64.js utils.js legacy.js
CIPHERS := _arx.js _poly1305.js chacha.js utils.js

.PHONY: help demo install test check house long lake bare reboot bench soak dist deb release lock vendor axe browser trio-typing clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         a core and two edges: killed, restarted, counted"
	@echo "make install      the program for this user, as \`uv tool install .\` does, by the lock file"
	@echo "make test         the quick tests"
	@echo "make check        format, lint, types, house rules, quick tests: before each commit"
	@echo "make long         the long tests, types as trio-typing sees them, and $(REPORT)"
	@echo "make bare         both commands of the README on a bare Debian, as an ordinary user (root, debootstrap)"
	@echo "make reboot       a node as a service, in a Debian that is booted twice (root, debootstrap, systemd-nspawn)"
	@echo "make bench        throughput and latency beside bare signature verification"
	@echo "make soak HOURS=8  a fleet for hours: what grows in memory, descriptors, disk, loop lag, CPU"
	@echo "make dist         wheel and source archive, into dist/"
	@echo "make deb          the Debian package as well, for this machine's Python or DEB_PYTHON=3.13"
	@echo "make release      wheel, source archive, Debian package and list of components, twice to the same bytes"
	@echo "make lock         refresh requirements/*.txt from pyproject.toml"
	@echo "make vendor       fetch the scripts of others that pages load, from npm, by version and digest"
	@echo "make axe          fetch axe-core, with which the tests look at the pages' accessibility, from npm"
	@echo "make browser      the tests in headless Chromium"
	@echo "make clean        remove what the other targets made"

demo: .venv/run.stamp
	@$(VENV)/router demo

# Versions as locked; modules are compiled as they are used, since compiling all of them would cost more than the rest. uv puts
# `router` into ~/.local/bin, and says what to do where that is not on the path.
install: $(UV)
	@$(UV) tool install $(QUIET) --force --reinstall-package key-addressed-router --python "$$(command -v $(PYTHON))" \
		--constraints requirements/run.txt --build-constraints requirements/run.txt . || $(OFFLINE)

# For which Python of Debian: 3.11 bookworm, 3.13 trixie.
DEB_PYTHON ?=
dist: .venv/run.stamp
	@$(VENV)/python -m release dist

deb: .venv/run.stamp
	@$(VENV)/python -m release deb $(if $(DEB_PYTHON),--for-python $(DEB_PYTHON))

release: .venv/run.stamp
	@$(VENV)/python -m release all $(if $(DEB_PYTHON),--for-python $(DEB_PYTHON))

bench: .venv/run.stamp
	@$(VENV)/router bench

test: .venv/dev.stamp
	@$(VENV)/python -m pytest -q -m "not long" -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

house: .venv/dev.stamp
	@$(VENV)/python -m pytest -q tests/test_house.py tests/test_requirements.py

check: .venv/dev.stamp
	@$(VENV)/ruff check .
	@$(VENV)/ruff format --check .
	@$(VENV)/mypy
	@$(MAKE) --no-print-directory house test

# pytest's code 5 says that no test was collected. What is about disks is tested on one: quick tests have files in memory.
long: .venv/dev.stamp trio-typing lake
	@$(VENV)/python -m pytest -q -m "long or hypothesis" || [ $$? -eq 5 ]
	@$(VENV)/python -m pytest -q -m "not (long or hypothesis)" tests/router/disk
	@$(VENV)/router bench --goals --report $(REPORT)

bare:
	@.ci/bare

reboot:
	@.ci/reboot

HOURS ?= 8
soak: .venv/dev.stamp
	@PYTHONPATH=tests $(VENV)/python -m scale.soak $(HOURS)

# The oldest Spark of the extra, and a server of S3; the tests that need them are skipped, with the reason, where it is not there.
lake: .venv-lake/stamp .tools/ivy/stamp

.venv-lake/stamp: requirements/lake.txt | $(UV)
	@echo "installing requirements/lake.txt into .venv-lake: some 0.5 GB fetched, 0.7 GB kept"
	@$(UV) venv -q --clear --python "$$(command -v $(PYTHON))" .venv-lake
	@$(UV) pip sync $(QUIET) --require-hashes --build-constraints $< --python .venv-lake/bin/python $< || $(OFFLINE)
	@touch $@

.tools/ivy/stamp: .venv-lake/stamp spark_analytics/batch/trial.py tests/rigs/lake_packages.py
	@echo "fetching the packages of Delta, Iceberg, S3 and HDFS for Spark into .tools/ivy: some 0.9 GB, 1.6 GB kept"
	@PYTHONPATH=.:tests .venv-lake/bin/python tests/rigs/lake_packages.py && touch $@ \
		|| echo "the packages cannot be had here, and the tests that need them are skipped" >&2

# The public modules as those see them who still have trio-typing, whose stubs hide trio's own types.
trio-typing: .venv-trio-typing/stamp
	@.venv-trio-typing/bin/mypy --config-file= --strict --follow-imports=silent --python-version 3.11 \
		--cache-dir .mypy_cache/trio-typing $(wildcard $(PUBLIC))

# Each lock file constrains the next, so the versions are the same in all. spark.txt is for those who install the extra alone.
lock: $(UV)
	@mkdir -p requirements
	@$(LOCK) --group build -o requirements/run.txt > /dev/null
	@$(LOCK) --group build --group build-spark --extra spark -c requirements/run.txt -o requirements/spark.txt > /dev/null
	@$(LOCK) --group build --group build-spark --group dev --extra spark -c requirements/spark.txt -o requirements/dev.txt > /dev/null
	@$(LOCK_ONLY) --group setup -o requirements/setup.txt > /dev/null
	@$(LOCK_ONLY) --group lake -o requirements/lake.txt > /dev/null
	@$(LOCK) --group trio-typing-compat -c requirements/run.txt -o requirements/trio-typing.txt > /dev/null
	@grep -n '://' requirements/*.txt && { echo "a lock file must not name a place: see the lines above" >&2; exit 1; } || true

vendor:
	@rm -rf .tools/vendor && mkdir -p .tools/vendor
	@cp $(VENDOR)/package.json $(VENDOR)/package-lock.json .tools/vendor
	@cd .tools/vendor && npm ci --silent --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund
	@$(call TAKE,@noble/hashes,hashes,LICENSE $(HASHES))
	@$(call TAKE,@noble/ciphers,ciphers,LICENSE $(CIPHERS))
TAKE = rm -rf $(VENDOR)/$2 && for file in $3; do install -D -m 644 .tools/vendor/node_modules/$1/$$file $(VENDOR)/$2/$$file || exit 1; done

# What tests pages for accessibility; not part of the product.
AXE := .tools/axe/node_modules/axe-core/axe.min.js
axe: $(AXE)

$(AXE): tests/browser/axe/package-lock.json
	@mkdir -p .tools/axe && cp tests/browser/axe/package.json $< .tools/axe
	@cd .tools/axe && npm ci --silent --ignore-scripts --omit-lockfile-registry-resolved --no-audit --no-fund
	@touch $@

# Skipped, with the reason, where there is no Chromium; what needs axe-core, where `make axe` has not fetched it.
browser: .venv/dev.stamp
	@$(VENV)/python -m pytest -q -rs -n 1 --dist loadgroup tests/browser

clean:
	rm -rf .venv .venv-trio-typing .venv-lake .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build

$(UV): requirements/setup.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "This needs Python 3.11 or newer, and\
	 '$(PYTHON)' is $$($(PYTHON) --version 2>&1 | tail -n 1). Name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "'$(PYTHON)' has no venv module.\
	 On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	@echo "fetching uv into .tools (once)"
	@$(PYTHON) -m venv --clear .tools
	@.tools/bin/python -m pip install -qq --no-warn-script-location --no-deps --require-hashes -r $< || $(OFFLINE)
	@touch $@

.venv/bin/python: | $(UV)
	@$(UV) venv -q --clear --python "$$(command -v $(PYTHON))" .venv

# A stamp is the lock file that was installed: only a changed lock fetches anything. dev.txt contains run.txt, same versions.
.venv/run.stamp: requirements/run.txt pyproject.toml .venv/bin/python | $(UV)
	@cmp -s $< $@ || { echo "installing $< into .venv: some 60 MB fetched, 220 MB kept"; rm -f .venv/dev.stamp;\
	 $(SYNC) $< --python $(VENV)/python $< || $(OFFLINE); }
	@$(INSTALL) --python $(VENV)/python -e .
	@cp $< $@

.venv/dev.stamp: requirements/dev.txt requirements/run.txt pyproject.toml .venv/bin/python | $(UV)
	@cmp -s $< $@ || { echo "installing $< into .venv: some 0.6 GB fetched, 1.2 GB kept; most of it is Spark";\
	 $(SYNC) $< --python $(VENV)/python $< || $(OFFLINE); }
	@$(INSTALL) --python $(VENV)/python -e .
	@cp requirements/run.txt .venv/run.stamp
	@cp $< $@

.venv-trio-typing/stamp: requirements/trio-typing.txt | $(UV)
	@echo "installing requirements/trio-typing.txt into .venv-trio-typing"
	@$(UV) venv -q --clear --python "$$(command -v $(PYTHON))" .venv-trio-typing
	@$(SYNC) $< --python .venv-trio-typing/bin/python $<
	@touch $@
