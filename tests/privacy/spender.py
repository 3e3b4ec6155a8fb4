"""A process that asks questions of a table's ledger in random order until it is killed, and notes what it told.

usage: python spender.py TABLE TOLD SEED RHO LIMIT QUESTIONS STUDY
"""

from __future__ import annotations

import os
import random
import sys
from hashlib import sha256

from intarsia.exceptions import ReleaseError
from intarsia.privacy.ledger import Ledger


def main(table, told, seed, rho, limit, questions, study):
    ledger = Ledger.beside(table)
    chance = random.Random(int(seed))
    out = os.open(told, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(1, b"ready\n")
    while True:
        digest = sha256(str(chance.randrange(int(questions))).encode()).hexdigest()
        with ledger.locked():
            data = ledger.answer(digest)
            if data is None:
                try:
                    ledger.charge(study, seed, digest, "counts", float(rho), float(limit))
                except ReleaseError:
                    continue
                data = os.urandom(8).hex().encode()  # stands for noisy sums: never the same twice
                ledger.keep(digest, data)
        os.write(out, f"{digest} {data.decode()}\n".encode())  # told


if __name__ == "__main__":
    main(*sys.argv[1:])
