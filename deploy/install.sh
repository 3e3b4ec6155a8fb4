#!/usr/bin/env bash
# Install Intarsia from this folder, without internet: ./install.sh FOLDER [PYTHON]
# FOLDER becomes a virtual environment, for example /opt/intarsia. An environment that exists is brought to these versions.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
target=${1:?"usage: ./install.sh FOLDER [PYTHON]    for example: ./install.sh /opt/intarsia python3.11"}
python=${2:-python3}
needed=$(cat "$here/PYTHON")
if ! command -v "$python" >/dev/null; then
  echo "install.sh: $python was not found. Needed: Python for $needed. Give its path: ./install.sh $target /path/to/python3" >&2
  exit 1
fi
seen=$("$python" -c 'import sys, sysconfig; print("cp%d%d-%s" % (*sys.version_info[:2], sysconfig.get_platform()))')
if [ "$seen" != "$needed" ]; then
  echo "install.sh: these wheels are for $needed, and $python is $seen." >&2
  echo "Give another Python (./install.sh $target python3.X), or make a wheelhouse with this one: make wheelhouse PYTHON=…" >&2
  exit 1
fi
if [ -f "$here/GLIBC" ]; then
  oldest=$(cat "$here/GLIBC")
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d ' ' -f 2 || true)
  if [ "$(printf '%s\n' "$oldest" "$glibc" | sort -V | head -n 1)" != "$oldest" ]; then
    echo "install.sh: these wheels need glibc $oldest or newer, and this system has ${glibc:-none}." >&2
    echo "Use a newer system, or make a wheelhouse on one with this glibc: make wheelhouse PYTHON=…" >&2
    exit 1
  fi
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  echo "install.sh: $python has no module venv. Install it from the system's packages, on Debian: python3-venv." >&2
  exit 1
fi
"$python" -m venv "$target"
# every wheel must have the hash that is listed; no index is asked, whatever pip is configured to do
PIP_CONFIG_FILE=/dev/null "$target/bin/python" -m pip install --quiet --disable-pip-version-check --no-index \
  --find-links "$here/wheels" --require-hashes --requirement "$here/requirements.txt"
"$target/bin/intarsia" version
echo "installed. Try: $target/bin/intarsia demo    and: $target/bin/intarsia doctor"
