"""The journal of agent runs; `contract.py` says what it promises."""
