# make run: everything on this machine, from nothing but Python 3.11 and make.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help run docs drawings test test-fast test-long topology format typecheck lint bench containers abuse screenshots audit clean

help: ## Show these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stack gets the terminal for itself (set -m), so that Ctrl-C reaches it alone: it stops in order and
# ends with 0, and make does not call that an interrupt.
run: $(VENV)/installed ## Set up, then run the whole stack; Ctrl-C stops it
	@if [ -t 0 ]; then set -m; fi; $(BIN)/vedette up; exit $$?

# In an environment of its own: `make run` needs none of it. A running service finds the site when it starts again.
docs: $(VENV)-docs/installed ## Build the site of the documentation into dist/docs, which the service shows at /docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)-docs/bin/python -P -m mkdocs build --strict --quiet --config-file docsite/mkdocs.yml
	@echo "The site is in dist/docs: any web server can serve it, and the service shows it at /docs."

# Each process has servers of its own, and takes one file after the other.
IN_PROCESSES := --dist loadfile --no-loadscope-reorder --max-worker-restart 0 --durations=20

# In four processes: many tests wait more than they work. Long ones start many more processes by themselves.
test: $(VENV)/installed-dev ## Run the tests but the long ones, or those in ARGS; no running service is needed
	@$(BIN)/python -m pytest $(or $(ARGS),--numprocesses 4 $(IN_PROCESSES) -m "not long")

# Whole stacks, killed workers, attacks, fuzzing, benchmarks, all that pages and templates show, generated clients.
test-long: $(VENV)/installed-dev ## Run the long tests, or those of them in ARGS
	@$(BIN)/python -m pytest -m "long and not topology" $(or $(ARGS),--numprocesses 3 $(IN_PROCESSES))

# docs/deploy.md, machine by machine, each killed and suspended under load. Needs haproxy, pgbouncer and Go.
topology: $(VENV)/installed-dev ## Run the service as on several machines, and take each part away
	@$(BIN)/python -m pytest -m topology --durations=10 $(or $(ARGS),tests/topology)

# Those that need no server, or Postgres alone: most of what is pure, and how runs are claimed and paid.
test-fast: $(VENV)/installed-dev ## Run the tests that need no server, or Postgres alone
	@$(BIN)/python -m pytest --numprocesses 2 $(IN_PROCESSES) -m fast $(ARGS)

format: $(VENV)/installed-dev ## Format the code, and mend what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(VENV)/installed-dev ## Check types
	$(BIN)/pyright

lint: $(VENV)/installed-dev ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

bench: $(VENV)/installed-dev ## Run the benchmarks
	@$(BIN)/python -m bench.floor
	@$(BIN)/python -m bench.automations
	@$(BIN)/python -m bench.automations --variants --rounds 1
	@$(BIN)/python -m bench.automations --workflows 1 200 --accounts 1 20 --seconds 2
	@$(BIN)/python -m bench.automations --offered 5 20 --seconds 5
	@$(BIN)/python -m bench.approvals
	@$(BIN)/python -m bench.bulk
	@$(BIN)/python -m bench.claims --queues 1 1000
	@$(BIN)/python -m bench.families --seconds 10
	@$(BIN)/python -m bench.ingest_neighbours
	@$(BIN)/python -m bench.run_neighbours
	@$(BIN)/python -m bench.takeover
	@$(BIN)/python -m bench.dashboard --runs 100000 --minutes 1
	@$(BIN)/python -m bench.deliveries
	@$(BIN)/python -m bench.endpoints
	@$(BIN)/python -m bench.expressions
	@$(BIN)/python -m bench.lookups
	@$(BIN)/python -m bench.memory
	@$(BIN)/python -m bench.run_memory
	@$(BIN)/python -m bench.migrations --rows 100000
	@$(BIN)/python -m bench.monitors
	@$(BIN)/python -m bench.scale --seconds 2
	@$(BIN)/python -m bench.schedules
	@$(BIN)/python -m bench.uploads

# As docs/docker.md has it. `up --wait` ends when every healthcheck succeeds, or with the one that does not.
containers: ## Build the image and start all in containers, by Docker or Podman
	@engine=$$(command -v docker || command -v podman) || { echo "Neither Docker nor Podman is installed."; exit 1; }; \
	  "$$engine" compose up --detach --wait

abuse: $(VENV)/installed-dev ## Attack a stack of its own, and print what held
	@$(BIN)/python -m bench.abuse

# Needs Chromium. Look at each picture before it is committed.
screenshots: $(VENV)/installed-dev ## Take the pictures of the dashboard's page anew
	@$(BIN)/python -m tests.dashboard.screenshots

# Needs Chromium and npm.
drawings: $(VENV)/installed-dev ## Draw the pictures of the pages' drawings anew
	@$(BIN)/python -m tests.documentation.drawings

# Writes the list of all parts to dist/sbom.json. Without the service that knows vulnerabilities it says so, and fails
# where CI is set alone.
audit: $(VENV)/installed-dev ## Check licences and known vulnerabilities of all dependencies
	@$(BIN)/python -m supply

clean: ## Remove the virtual environment and caches; the data folder stays
	rm -rf $(VENV) $(VENV)-docs build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Once a virtual environment has its pip it is whole; one that was interrupted is made again.
$(VENV)/made:
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	    { echo "$(PYTHON) is not Python 3.11 or newer. Name one: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }; \
	  echo "Making the virtual environment …"; \
	  $(PYTHON) -m venv --clear $(VENV) || \
	    { echo "Python cannot make one; it may lack its venv module (on Debian: python3-venv)."; exit 1; }; \
	fi
	@touch $@

$(VENV)/installed: requirements.lock pyproject.toml | $(VENV)/made
	$(call install,requirements.lock)
	@touch $@

$(VENV)/installed-dev: requirements-dev.lock pyproject.toml | $(VENV)/made
	$(call install,requirements-dev.lock)
	@touch $@ $(VENV)/installed

$(VENV)-docs/installed: requirements-docs.lock
	@$(PYTHON) -m venv --clear $(VENV)-docs
	@$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-docs.lock
	@touch $@

# Installs exactly what a lock file names, then this project itself; a dot every three seconds meanwhile.
# Bytecode is made on all processors, where pip uses one; ours too, since who runs the parts of a stack that
# root starts cannot write it. A lock names all there is: there are no dependencies to look for.
define install
	@printf "Installing the dependencies of $(1), once "; \
	  (while sleep 3; do printf .; done) & dots=$$!; \
	  $(PIP) install --quiet --retries 2 --require-hashes --no-deps --no-compile -r $(1) \
	    && $(PIP) install --quiet --no-deps --no-build-isolation --no-index -e . \
	    && { $(BIN)/python -m compileall -qq -j 0 -x '^\./(tests|bench|data)/' . || true; }; code=$$?; \
	  kill $$dots; echo; \
	  if [ $$code -ne 0 ]; then \
	    echo "The dependencies could not be installed: is the package index reachable, and does $(1) fit it?"; \
	    exit 1; \
	  fi
endef
