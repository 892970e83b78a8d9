# run and test set themselves up on a machine with nothing but Python 3.11 or newer.
PYTHON ?= python3
PORT ?= 8501
HOST ?= localhost
# An address that others can reach needs MODE=hosted, or MODE=local on a network you trust (docs/how-to/hosting.md).
MODE ?=
BIN := .venv/bin
# Three workers for two cores, since tests wait for servers and subprocesses a quarter of their time; a file of tests at a time, in the
# order of tests/conftest.py: the longest first. A browser is busy all the time, so its tests have two.
WORKERS ?= 3
# Compiled files are kept, also where PYTHONDONTWRITEBYTECODE is set: each worker, server and command would compile them again.
PYTEST = env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help run test test-browser test-all test-real mutants check docs audit sbom bench walk crowd room soak servers audits train record clean gpu gpu-dry

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: .venv/ready ## serve the app at http://localhost:8501 (PORT=8600, HOST=0.0.0.0 MODE=hosted)
	$(if $(MODE),SPECVIZ_MODE=$(MODE) )$(BIN)/streamlit run app.py --server.port $(PORT) --server.address $(HOST)

test: .venv/ready-test ## the fast tests, without a browser
	$(PYTEST) -m "not slow and not gpu and not browser and not real" --ignore=tests/browser --ignore=tests/real

test-browser: WORKERS = 2
test-browser: .venv/ready-test ## the tests of the pages in a browser
	$(PYTEST) -m "browser and not slow" tests/browser

# Then the proofs on tables whose every number is moved by one unit in the last place, as other processors round.
test-all: .venv/ready-test ## the fast tests and those of minutes
	$(PYTEST) -m "not gpu and not real"
	SPECVIZ_LAST_PLACE=1 $(PYTEST) -m "not slow and not gpu" tests/verification tests/evidence/analytic/test_enumerate.py

# One process: two copies of the model need 3 GB each.
test-real: .venv/ready-test ## the tests on a public model with a large vocabulary: SPECVIZ_REAL_MODEL=folder of tools/fetch_real_model.py
	$(BIN)/python -m pytest -n 0 -s -m real tests/real

# Breaks the code in one place at a time, in a copy, and says which breaks the fast tests find; about ten minutes.
mutants: .venv/ready-test ## break the code in one place at a time, and say which breaks the fast tests find
	$(BIN)/python tools/code_mutants.py

check: .venv/ready-test ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: .venv/ready-docs ## build the documentation into site/; a broken link is an error
	$(BIN)/python tools/generated_docs.py
	$(BIN)/zensical build --clean --strict

audit: .venv/ready-release ## look for known weaknesses in the tested set of libraries; needs the network
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip

sbom: .venv/ready-release ## list the libraries of a release, with versions and licenses, as CycloneDX: OUT=sbom.cdx.json
	$(BIN)/python tools/sbom.py $(or $(OUT),sbom.cdx.json)

bench: .venv/ready ## measure speed on this machine
	$(BIN)/python -m specviz bench

# On a bare machine with torch, transformers, numpy, scipy and safetensors: PYTHON=python3, results in OUT.
gpu: ## measure all that only a GPU can tell, in MINUTES=8: OUT=gpu
	$(PYTHON) -m specviz bench gpu --out $(or $(OUT),gpu) --minutes $(or $(MINUTES),8)

gpu-dry: .venv/ready-test ## all parts of the measurement on a GPU, small, on the CPU: half a minute
	folder=$$(mktemp -d) && $(BIN)/python -m specviz bench gpu --dry --minutes 4 --out "$$folder"; code=$$?; rm -rf "$$folder"; exit $$code

walk: .venv/ready-test ## measure how long one visitor waits, in Chromium on this machine: TIMES=20 OUT=walk.md
	$(BIN)/python -m tools.load.walk --times $(or $(TIMES),20) --cold $(or $(TIMES),20)$(if $(OUT), --out $(OUT))

crowd: .venv/ready ## measure how long visitors wait when they are many, on this machine: VISITORS=50 LOOKERS=200 READING=3 OUT=crowd.md
	$(BIN)/python -m tools.load.crowd --visitors $(or $(VISITORS),50) --lookers $(or $(LOOKERS),200) --reading $(or $(READING),3)$(if $(OUT), --out $(OUT))

room: .venv/ready ## measure how long a class waits for its classroom, on this machine: STUDENTS=120 OUT=room.md
	$(BIN)/python -m tools.load.room --students $(or $(STUDENTS),120)$(if $(OUT), --out $(OUT))

soak: .venv/ready ## visitors come, work and leave for MINUTES=30; fails where memory grows or work is lost: VISITORS=50 OUT=soak.md
	$(BIN)/python -m tools.load.soak --minutes $(or $(MINUTES),30) --visitors $(or $(VISITORS),50)$(if $(OUT), --out $(OUT))

# Minutes and some gigabytes each; llama.cpp needs cmake and a compiler. Nothing else needs them.
servers: .venv/ready ## get other people's servers for audits: IN=folder
	@test -n "$(IN)" || { echo "make servers IN=folder; see docs/how-to/checking-your-server.md"; exit 2; }
	for kind in transformers vllm llama.cpp; do tools/servers/get.sh $$kind "$(IN)/$$kind" || exit 1; done
	for name in target draft; do $(IN)/transformers/venv/bin/python tools/servers/to_gguf.py $(IN)/llama.cpp/source \
		assets/models/storybook/$$name $(IN)/llama.cpp/$$name.gguf || exit 1; done

audits: .venv/ready ## audit the servers that are in IN=folder: OUT=folder [PUBLISH=docs/audits]
	@test -n "$(IN)" -a -n "$(OUT)" || { echo "make audits IN=folder OUT=folder"; exit 2; }
	$(BIN)/python -m tools.servers.audits "$(IN)" --out "$(OUT)" $(if $(PUBLISH),--publish "$(PUBLISH)")

train: .venv/ready ## train the shipped pair anew: DATA=books.txt [HELDOUT=other.txt]
	@test -n "$(DATA)" || { echo "make train DATA=books.txt [HELDOUT=other.txt]; see assets/models/storybook/README.md"; exit 2; }
	$(BIN)/python -m specviz train --data "$(DATA)" $(if $(HELDOUT),--heldout "$(HELDOUT)")

record: .venv/ready ## record the run that the first page opens with
	$(BIN)/python -m specviz record

clean: ## remove .venv and the built site
	rm -rf .venv site .cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "specviz needs Python 3.11 or newer, this is %d.%d; make PYTHON=python3.12 run" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv

# A checkout is installed in place, so that `specviz` runs the code that lies here.
define install
@began=$$(date +%s); echo "installing $(1) into .venv, some minutes the first time"; \
$(BIN)/python -m pip install --quiet --disable-pip-version-check $(2) -e ".[$(1)]" && echo "that took $$(( $$(date +%s) - began )) s" && touch $@
endef

.venv/ready: .venv/bin/python pyproject.toml constraints.txt
	$(call install,app,--constraint constraints.txt)

.venv/ready-test: .venv/ready
	$(call install,test,--constraint constraints.txt)

.venv/ready-docs: .venv/ready
	$(call install,docs,--constraint constraints.txt)

.venv/ready-release: .venv/ready
	$(call install,release)
