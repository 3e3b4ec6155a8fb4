"""Write the configuration with which a runtime runs an image as ``podman run --read-only --cap-drop all`` would.

``python oci_bundle.py IMAGE.json ROOT BUNDLE WORD…``: the user, environment and entry point are those of the image.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    """Write ``config.json`` into the bundle."""
    image, root, bundle, *words = sys.argv[1:]
    config = json.loads(Path(image).read_text(encoding="utf-8"))["OCIv1"]["config"]
    user, _, group = config["User"].partition(":")
    if int(user) == 0:
        sys.exit("the image runs as root")
    mounts = [
        {"destination": "/proc", "type": "proc", "source": "proc"},
        {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        {"destination": "/dev/shm", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},  # noqa: S108
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},  # noqa: S108
    ]
    process = {
        "args": [*config["Entrypoint"], *words],
        "env": config["Env"],
        "cwd": config["WorkingDir"],
        "user": {"uid": int(user), "gid": int(group)},
        "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted")},
        "noNewPrivileges": True,
    }
    namespaces = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")]
    document = {
        "ociVersion": "1.0.2",
        "process": process,
        "root": {"path": root, "readonly": True},
        "mounts": mounts,
        "linux": {"namespaces": namespaces},
    }
    Path(bundle, "config.json").write_text(json.dumps(document), encoding="utf-8")


if __name__ == "__main__":
    main()
