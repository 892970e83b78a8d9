# run and test set themselves up on a machine with nothing but Python 3.11 or newer.
PYTHON ?= python3
PORT ?= 8501
HOST ?= localhost
# Visitors may name folders and hub names of their own where this machine alone can connect; OWN_PAIRS=yes or no decides otherwise.
LOCAL := $(filter localhost 127.0.0.1 ::1,$(HOST))
OWN_PAIRS ?= $(if $(LOCAL),yes,no)
FLAGS := $(if $(filter yes,$(OWN_PAIRS)),-- --allow-own-pairs $(if $(LOCAL),,--allow-own-pairs-from-network))
BIN := .venv/bin
# Two workers for two cores, a file of tests at a time; those that drive a browser come first, being the longest.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-all mutants check bench train record clean

run: .venv/ready
	$(BIN)/streamlit run app.py --server.port $(PORT) --server.address $(HOST) $(FLAGS)

test: .venv/ready-test
	$(PYTEST) -m "not slow and not gpu"

test-all: .venv/ready-test
	$(PYTEST) -m "not gpu"

# Breaks the code in one place at a time, in a copy, and says which breaks the fast tests find; about ten minutes.
mutants: .venv/ready-test
	$(BIN)/python tools/code_mutants.py

check: .venv/ready-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

bench: .venv/ready
	$(BIN)/python -m specviz bench

train: .venv/ready
	@test -n "$(DATA)" || { echo "make train DATA=books.txt [HELDOUT=other.txt]; see assets/models/storybook/README.md"; exit 2; }
	$(BIN)/python -m specviz train --data "$(DATA)" $(if $(HELDOUT),--heldout "$(HELDOUT)")

record: .venv/ready
	$(BIN)/python -m specviz record

clean:
	rm -rf .venv

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "specviz needs Python 3.11 or newer, this is %d.%d; make PYTHON=python3.12 run" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv

.venv/ready: .venv/bin/python requirements.txt constraints.txt
	@began=$$(date +%s); echo "installing into .venv, some minutes the first time"; \
	$(INSTALL) -r requirements.txt && echo "set-up took $$(( $$(date +%s) - began )) s" && touch $@

.venv/ready-test: .venv/ready requirements-test.txt
	@began=$$(date +%s); $(INSTALL) -r requirements-test.txt && echo "test set-up took $$(( $$(date +%s) - began )) s" && touch $@
