# The front door. Each target makes the environment in .venv first, if it is not there.
#   PYTHON=…         take this interpreter        MXNET=mxnet-cu112   on an NVIDIA machine
PY := $(shell for p in $(PYTHON) python3.11 python3 python; do "$$p" -c "" >/dev/null 2>&1 && { echo "$$p"; exit; }; done; \
        command -v uv >/dev/null 2>&1 && echo "uv run -q --no-project --python 3.11 python")
FRONT = $(if $(PY),$(PY),$(error No Python here. Install Python 3.11 from python.org or your system, or uv, and try again)) tools/front.py
export PYTHON REQUIREMENTS MXNET

help:
	@echo "make book      build the pages, measure what is not measured here yet, print the ledger's line;"
	@echo "               TOPIC=asynchrony measures that topic alone"
	@echo "make check     style, rules and the quick unit tests: an answer in a minute or two"
	@echo "make test      unit tests, rules for notebooks, every notebook re-run and compared"
	@echo "make lab       open the chapters in JupyterLab; ARGS='--port 9999 --no-browser' are options of it"
	@echo "make exercises write notebooks to solve the exercises in, with a check of each answer"
	@echo "make refresh   re-run notebooks and store their outputs; NB=path for one,"
	@echo "               ALL=1 to store also what differs only in times and images, KEPT=1 to go on with"
	@echo "               a run that was interrupted, or of which a notebook raised"
	@echo "make ledger    write this machine's ledger from the last run, to contribute it"
	@echo "make repeat    run the book N=1 more times in fresh processes, for the spread between runs"
	@echo "make compare   OLD=ledgers/a.json NEW=ledgers/b.json: what changed from one ledger to another"
	@echo "make mutants   plant faults in the experiments; a claim that still holds proves nothing"
	@echo "make student   a copy of the book without solutions, in _build/student"
	@echo "make epub      the book as one file, in _build/epub; make pdf: in _build/pdf"
	@echo "make slides    slides for the twelve lectures, a file each, in _build/slides"
	@echo "make env       make the environment in .venv and do nothing else"
	@echo "make clean     remove what was built (_build); ENV=1 removes .venv too"
book: ; @$(FRONT) book $(TOPIC)
check: ; @$(FRONT) check
test: ; @$(FRONT) test
lab: ; @$(FRONT) lab $(ARGS)
exercises: ; @$(FRONT) exercises
refresh: ; @$(FRONT) refresh $(NB) $(if $(ALL),--all-outputs) $(if $(KEPT),--kept)
ledger: ; @$(FRONT) ledger
repeat: ; @$(FRONT) repeat $(or $(N),1)
compare: ; @$(FRONT) compare $(OLD) $(NEW)
mutants: ; @$(FRONT) mutants $(NB)
env student epub pdf slides: ; @$(FRONT) $@
clean: ; @$(FRONT) clean $(if $(ENV),--env)
.PHONY: help book check test lab exercises refresh ledger repeat compare mutants env student epub pdf slides clean
