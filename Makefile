# mmt: `make demo` shows it at work, `make test` shows that it does.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
EXTRAS := data,dev,docs,files,formats,serve,clients

# Lines that the demo translates before the user's eyes, of six languages.
LINES_TO_SHOW := 'Dienstag, 2. März 2021' '3 Stunden' '5 дней назад' 'Francia, Italia y España' \
  'siku 12' '38,1 kilogramm'

# The model that `make serve` serves.
SERVED = $(if $(filter command environment,$(origin MODEL)),$(MODEL),runs/demo/multilingual)

.PHONY: help demo serve test test-all test-t5x lint docs bench fuzz bible100 mix150 mix150-model env env-all clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.venv/.data-dev: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS)]'
	@touch $@

.venv/.all: .venv/.data-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[$(EXTRAS),beam,parity,plan]'
	@touch $@

env: .venv/.data-dev  ## .venv for the demo, the tests and the documents
env-all: .venv/.all  ## the same, with [parity], [plan] and [beam] for `make test-all`

demo: env  ## 100+ languages: corpus, training, bilingual baselines, evaluation, report
	$(BIN)/mmt train --gin_file=gin_configs/examples/demo.gin
	$(BIN)/mmt baselines --gin_file=gin_configs/examples/demo_baselines.gin
	$(BIN)/mmt evaluate --model runs/demo/multilingual --testset cldr --out runs/demo/results.jsonl
	$(BIN)/mmt report runs/demo/results.jsonl --out runs/demo/report
	@echo; printf '%s\n' $(LINES_TO_SHOW) | tee /dev/stderr | \
	  $(BIN)/mmt translate --model runs/demo/multilingual
	@echo; echo "The report: runs/demo/report/report.html"

serve: env  ## the demo's model as a server with a web page: http://127.0.0.1:5000; MODEL=<run>: another
	@test -f '$(SERVED)/config.gin' || { \
	  echo "$(SERVED) holds no model: make demo trains it in 8 minutes; or make serve MODEL=benchmarks/mix150/model"; exit 2; }
	$(BIN)/mmt serve --model '$(SERVED)'

test: env lint  ## all tests but the marked ones (slow, parity, mesh, t5x, gpu)
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 \
	  --durations 20

test-all: env-all lint  ## every test that this machine can run, the slow ones too
	$(BIN)/python -m pytest -q -m 'not t5x and not gpu' --timeout 3600

test-t5x: env  ## the model in a real T5X: make test-t5x T5X=<checkout of google-research/t5x>
	@test -n "$(T5X)" || { echo "make test-t5x T5X=<checkout>: docs/t5x.md says how to get one"; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[t5x]'
	T5X=$(abspath $(T5X)) $(BIN)/python -m pytest -q -m t5x --timeout 3600

lint: env  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: env  ## the documents, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: env  ## the measurements in benchmarks/ that need no arguments, one table each
	$(BIN)/python -m benchmarks

fuzz: env  ## broken input by the thousand: the long profile of tests/fuzz
	$(BIN)/python -m pytest -q tests/fuzz -m slow --timeout 7200

bible100: env  ## 108 real languages against 108 baselines: make bible100 DATA=<the packs>; goes on
	@test -n "$(DATA)" || { echo "make bible100 DATA=<packs>: benchmarks/bible100/README.md"; exit 2; }
	$(BIN)/python -m benchmarks.bible100.corpus '$(DATA)' runs/bible100/data
	$(BIN)/mmt report --train benchmarks/bible100/study.gin

mix150: env  ## 152 languages of varied text against 152 baselines: make mix150 DATA=<packs>; goes on
	@test -n "$(DATA)" || { echo "make mix150 DATA=<packs>: benchmarks/mix150/README.md"; exit 2; }
	$(BIN)/python -m benchmarks.mix150.corpus '$(DATA)' runs/mix150/data
	$(BIN)/mmt report --train benchmarks/mix150/study.gin

MODEL ?= runs/mix150/dense
mix150-model: env  ## the published model of mix150, int8, with its card: make mix150-model MODEL=<run>
	$(BIN)/mmt export mmt --model '$(MODEL)' --card benchmarks/mix150/card.toml \
	  --results runs/mix150/results.jsonl --out benchmarks/mix150/model

clean:  ## remove what the demo made (not the environment)
	rm -rf runs/demo
